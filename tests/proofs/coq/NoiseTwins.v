(** What is false of noise and choices; and that there is the noise that theorems ask for. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum ssrint rat order.
From mathcomp Require Import ring zify.
Require Import Definitions Mechanisms Sums AboveThreshold Noise Twins.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Let Q : realFieldType := [realFieldType of rat].

Lemma same_above (x y : int) : 0 <= x -> 0 <= y -> `|x|%N = `|y|%N -> x = y.
Proof. lia. Qed.

Lemma same_below (x y : int) : ~~ (0 <= x) -> ~~ (0 <= y) -> `|x|.-1%N = `|y|.-1%N -> x = y.
Proof. lia. Qed.

(** Discrete Laplace of any q exists, so that what asks for it asks for something. *)
Section Laplace.
Variables (R : realFieldType) (q : R).
Hypothesis q01 : 0 < q < 1.

Let q0 : 0 < q. Proof. by case/andP: q01. Qed.
Let q1 : q < 1. Proof. by case/andP: q01. Qed.
Let rest_pos : 0 < 1 - q. Proof. by rewrite subr_gt0. Qed.

Definition laplace (z : int) : R := (1 - q) / (1 + q) * q ^+ `|z|%N.

Lemma geometric_le (s : seq nat) : uniq s -> (1 - q) * (\sum_(i <- s) q ^+ i) <= 1.
Proof.
move=> us; set n := (\max_(i <- s) i).+1.
have sub : {subset s <= iota 0 n}.
  by move=> i i_s; rewrite mem_iota /= add0n ltnS; exact: leq_bigmax_seq.
have le_n := mass_sub (P := fun i : nat => q ^+ i) (fun i => exprn_ge0 i (ltW q0)) us sub.
apply: (le_trans (ler_wpmul2l (ltW rest_pos) le_n)).
rewrite undup_id ?iota_uniq // /mass -[iota 0 n]/(index_iota 0 n) big_mkord.
have -> : (1 - q) * (\sum_(i < n) q ^+ i) = 1 - q ^+ n by rewrite -[RHS]opprB subrX1 -mulNr opprB.
by rewrite ler_subl_addr ler_addl exprn_ge0 // ltW.
Qed.

Lemma laplace_of_q : discrete_laplace q laplace.
Proof.
have n1 : 0 < 1 + q by rewrite addr_gt0 ?ltr01.
have c0 : 0 < (1 - q) / (1 + q) by apply: divr_gt0.
split=> //; split; last by exists ((1 - q) / (1 + q)).
split=> [z|s us]; first by apply: mulr_ge0; [exact: ltW | exact/exprn_ge0/ltW].
rewrite /mass /laplace -mulr_sumr mulrAC ler_pdivr_mulr // mul1r.
rewrite (bigID (fun z : int => 0 <= z)) /= mulrDr; apply: ler_add.
  rewrite -big_filter -(big_map absz xpredT (fun i => q ^+ i)); apply: geometric_le.
  rewrite map_inj_in_uniq ?filter_uniq // => x y; rewrite !mem_filter.
  by move=> /andP[x0 _] /andP[y0 _]; exact: same_above.
have -> : \sum_(z <- s | ~~ (0 <= z)) q ^+ `|z|%N =
    q * (\sum_(i <- [seq `|z|.-1%N | z <- s & ~~ (0 <= z)]) q ^+ i).
  rewrite big_map big_filter mulr_sumr; apply: eq_bigr => z z0.
  by rewrite -exprS prednK // absz_gt0; apply: contraNneq z0 => ->.
rewrite mulrCA; apply: ler_pimulr; [exact: ltW | apply: geometric_le].
rewrite map_inj_in_uniq ?filter_uniq // => x y; rewrite !mem_filter.
by move=> /andP[x0 _] /andP[y0 _]; exact: same_below.
Qed.

End Laplace.

(** discrete_laplace: two numbers that each move by one cost more than one that does. *)
Theorem discrete_laplace_mechanism_twin : ~ forall (near : seq nat -> seq nat -> Prop) (q : Q) p
    (query : seq nat -> seq int) (moved : nat), discrete_laplace q p ->
  (forall D E, near D E -> size (query D) = size (query E) /\
     forall i, `|nth 0 (query D) i - nth 0 (query E) i| <= moved%:Z) ->
  private near (q ^+ moved)^-1 0 (fun D => noisy p (query D)).
Proof.
pose both (D : seq nat) : seq int := nseq 2 (size D)%:Z.
have [h h01] : exists h : Q, 0 < h < 1 by exists (1 / 2%:R).
move=> /(_ (@add_remove nat) h _ both 1%N (laplace_of_q h01)) twin.
have step D E : add_remove D E -> size (both D) = size (both E) /\
    forall i, `|nth 0 (both D) i - nth 0 (both E) i| <= 1%:Z.
  by move=> /size_step sizes; split=> // -[|[|[|i]]] /=; lia.
have near : add_remove [:: 0%N] [::] by left; exists [::], 0%N, [::].
have := twin step _ _ near [:: [:: 1; 1]] isT.
rewrite /mass !big_seq1 addr0 /noisy /= !subrr !subr0 !mulr1 /laplace /= expr0 expr1 mulr1.
have [h0 h1] := andP h01; have c_pos : 0 < (1 - h) / (1 + h).
  by apply: divr_gt0; [rewrite subr_gt0 | rewrite addr_gt0 ?ltr01].
move: c_pos; set c := (1 - h) / _; move: c => c c_pos.
have -> : h^-1 * (c * h * (c * h)) = c * c * h by field; rewrite gt_eqF.
by rewrite ler_pmulr ?mulr_gt0 // leNgt h1.
Qed.

(** exponential_mechanism: weights that rise and fall are paid for in both directions. *)
Theorem exponential_mechanism_twin : ~ forall (near : seq nat -> seq nat -> Prop) (up down : Q)
    (w : seq nat -> bool -> Q) (M : mechanism nat Q bool_eqType),
  0 < up -> 0 < down -> (forall D, by_weight (w D) (M D)) ->
  (forall D E, near D E -> exists s, 0 < s /\
     forall x, w D x <= s * down * w E x /\ s * w E x <= up * w D x) ->
  bounded_range near up M.
Proof.
pose w (D : seq nat) (x : bool) : Q := if x == (D == [::]) then 2 else 1.
move=> /(_ (@add_remove nat) 2 2 w (fun D x => w D x / 3%:R) isT isT) twin.
have wM D : by_weight (w D) (fun x => w D x / 3%:R).
  have w0 x : 0 <= w D x by rewrite /w; case: (_ == _).
  split=> //; exists 3%:R; split=> //; split=> //.
  have -> : 3%:R = mass (w D) [:: true; false].
    by rewrite /mass big_cons big_seq1 /w; case: (D == [::]).
  by apply: total_finite => // -[].
have moves D E : add_remove D E -> exists s : Q, 0 < s /\
    forall x, w D x <= s * 2 * w E x /\ s * w E x <= 2 * w D x.
  by move=> _; exists 1; split=> // x; rewrite /w; case: (x == _); case: (x == _).
have near : add_remove [:: 0%N] [::] by left; exists [::], 0%N, [::].
have [c [_ bounds]] := twin wM moves _ _ near.
have [_ high] := bounds true; have [low _] := bounds false; move: high low.
rewrite /w /= => high low.
have third : 0 < 3%:R^-1 :> Q by rewrite invr_gt0 ltr0n.
have {}low : 2 <= c by move: low; rewrite mul1r ler_pmul2r.
have {}high : c * 2 <= 2 by move: high; rewrite mul1r mulrA ler_pmul2r.
by have := le_trans (ler_wpmul2r (isT : 0 <= 2 :> Q) low) high.
Qed.

(** bounded_range_pure: parts of laws may differ in their masses. *)
Theorem bounded_range_pure_twin : ~ forall (near : seq nat -> seq nat -> Prop) (r : Q)
    (M : mechanism nat Q unit_eqType),
  0 <= r -> has_laws M -> bounded_range near r M -> private near r 0 M.
Proof.
pose f n : Q := if n is 0%N then 1 / 2%:R else 1.
move=> /(_ (@add_remove nat) 1 (of_size f) isT) twin.
apply: (@not_private_of_size _ 1 0 f 0) => //; apply: twin.
  by apply: of_size_laws => -[|n].
have f_pos n : 0 < f n by case: n.
move=> D E _; exists (f (size D) / f (size E)); split; first exact: divr_gt0.
by move=> u; rewrite /of_size divfK ?gt_eqF // mul1r lexx.
Qed.

(** convert_to_less: laws of all of the mass. *)
Theorem convert_to_less_twin : ~ forall (near : seq nat -> seq nat -> Prop) (t d t' : Q)
    (M : mechanism nat Q unit_eqType), 1 < t -> 1 <= t' <= t -> (forall D E, near D E -> near E D) ->
  has_laws M -> private near t d M -> private near t' ((d * (1 + t') + (t - t')) / (1 + t)) M.
Proof.
pose f n : Q := if n is 0%N then 1 / 2%:R else 1.
move=> /(_ (@add_remove nat) 2%:R 0 1 (of_size f) isT isT) twin.
apply: (@not_private_of_size _ 1 _ f 0) (twin _ _ _) => //.
- by move=> D E [near|near]; [right | left].
- by apply: of_size_laws => -[|n].
by apply: private_of_size => // -[|n].
Qed.
