(** Examples of claims under hypotheses, of rare events, of requests, and of released numbers. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum ssrint rat order.
From mathcomp Require Import zify.
Require Import Definitions Mechanisms Sums Transfer Products Events Rules Hypotheses Adaptive.
Require Import AboveThreshold Noise Twins Releases Examples.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Let Q : realFieldType := [realFieldType of rat].

Lemma private_under (X T : eqType) (near : seq X -> seq X -> Prop) (t d : Q)
    (M : mechanism X Q T) H : private near t d M -> under H near t d M.
Proof.
move=> pM; elim: H => [|h H IH]; last exact: assume.
by move=> D E near_DE; apply: (eq_close _ _ (pM D E near_DE)).
Qed.

Lemma not_under (X T : eqType) (near : seq X -> seq X -> Prop) (t d : Q) (M : mechanism X Q T) H
    D E u :
  near D E -> every H D E u -> t * M E u + d < M D u -> ~ under H near t d M.
Proof.
move=> near_DE good far /(_ D E near_DE [:: u] isT).
by rewrite /mass !big_seq1 /where_good good leNgt far.
Qed.

(** Where the sum is odd, one output in three says so; the others tell little. *)
Definition rare (D : seq nat) (x : option bool) : Q :=
  if x is Some b then (if tells D then 1 / 3%:R else bit true b)
  else if tells D then 1 / 3%:R else 0.

Definition said (D E : seq nat) (x : option bool) : bool := isSome x.

Lemma rare_laws : has_laws rare.
Proof.
move=> D; have all1 : mass (rare D) [:: None; Some true; Some false] = 1.
  by rewrite /mass !big_cons big_nil /rare; case: (tells D).
have ge0 x : 0 <= rare D x by rewrite /rare; case: x => [[]|]; case: (tells D).
split=> // s us; rewrite -all1; apply: mass_total us; apply: total_finite => //.
by case=> [[]|].
Qed.

Lemma rare_close D E D' E' D'' E'' : close 2%:R 0 (where_good (every [:: said] D' E') (rare D))
  (where_good (every [:: said] D'' E'') (rare E)).
Proof.
apply: close_pointwise => x; rewrite /where_good /rare.
by case: x => [[]|]; case: (tells D); case: (tells E).
Qed.

Lemma rare_under near : under [:: said] near 2%:R 0 rare.
Proof. by move=> D E _; exact: rare_close. Qed.

Theorem add_delta_event_example : exists (R : realFieldType) (X : eqType)
    (near : seq X -> seq X -> Prop) (T : eqType) (t d e : R) (M : mechanism X R T)
    (H : seq (hypothesis X T)) (h : hypothesis X T),
  0 <= t /\ has_laws M /\ under (h :: H) near t d M /\ rarely_fails h H near e M /\
  (*told*) ~ under H near t d M.
Proof.
exists Q, nat_eqType, (@add_remove nat), (option_eqType bool_eqType), 2%:R, 0, (1 / 3%:R), rare.
exists [::], said; split; first by [].
split; first exact: rare_laws.
split; first exact: rare_under.
split; last exact: (not_under (u := None) (one_more 1)).
move=> D E _ s us; have third : 0 <= 1 / 3%:R :> Q by [].
apply: le_trans (_ : 1 / 3%:R * mass (certain Q None) s <= _); last first.
  rewrite -[X in _ <= X]mulr1; apply: (ler_wpmul2l third).
  exact: mass_le1 (certain_law Q None) us.
rewrite /mass mulr_sumr; apply: ler_sum => x _; rewrite /where_good /certain /rare /said /=.
by case: x => [b|] /=; [rewrite mulr0 | case: (tells D)].
Qed.

Theorem assume_example : exists (R : realFieldType) (X : eqType) (near : seq X -> seq X -> Prop)
    (T : eqType) (t d : R) (M : mechanism X R T) (H : seq (hypothesis X T)) (h : hypothesis X T),
  under H near t d M /\ (*told*) ~ under (h :: H) near 1 0 M.
Proof.
exists Q, nat_eqType, (@add_remove nat), (option_eqType bool_eqType), 2%:R, 0, rare.
exists [:: said], said.
split; first exact: rare_under.
have near : add_remove [:: 2%N] [:: 1%N; 2%N] by right; exists [::], 1%N, [:: 2%N].
exact: (not_under (u := Some true) near).
Qed.

(** Both stages rest on hypotheses, and the second one looks at the first. *)
Theorem compose_under_example : exists (R : realFieldType) (X : eqType)
    (near : seq X -> seq X -> Prop) (T U : eqType) (t d t' d' : R) (M : mechanism X R T)
    (K : T -> mechanism X R U) (H : seq (hypothesis X T)) (G : seq (T -> hypothesis X U)),
  0 <= t /\ 0 <= t' /\ 0 <= d' /\ has_laws M /\ (forall x, has_laws (K x)) /\
  under H near t d M /\ (forall x, under [seq g x | g <- G] near t' d' (K x)) /\
  (*told*) ~ private near (t * t') (d + d') (fun D => joint (M D) (fun x => K x D)).
Proof.
pose K (x : option bool) (D : seq nat) := rare (if x is None then D else 1%N :: D).
exists Q, nat_eqType, (@add_remove nat), (option_eqType bool_eqType), (option_eqType bool_eqType).
exists 2%:R, 0, 2%:R, 0, rare, K, [:: said], [:: fun=> said].
do 3!(split; first by []); split; first exact: rare_laws.
split; first by move=> x D; exact: rare_laws.
split; first exact: rare_under.
split; first by move=> x D E _; exact: rare_close.
exact: (not_private (u := (None, None)) (one_more 1)).
Qed.

(** A bit is released, and a second one only where the first one is set. *)
Theorem passed_gate_example : exists (R : realFieldType) (X : eqType)
    (near : seq X -> seq X -> Prop) (T : eqType) (t d : R) (M : mechanism X R T)
    (H : seq (hypothesis X T)) (h : hypothesis X T),
  (forall D E x, near D E -> ~~ h D E x -> M D x = 0 /\ M E x = 0) /\
  under (h :: H) near t d M /\ (*told*) ~ under H near 1 0 M.
Proof.
pose opened (D E : seq nat) (z : bool * bool) := z.1.
pose M D := where_good (opened D D) (joint (noisy_bit D) (fun=> noisy_bit D)).
exists Q, nat_eqType, (@add_remove nat), (prod_eqType bool_eqType bool_eqType), 4%:R, 0, M.
exists [::], opened; split.
  by move=> D E z _ shut; rewrite /M /where_good !ifN.
split; last exact: (not_under (u := (true, true)) (one_more 1)).
move=> D E _; apply: close_pointwise => -[x y].
rewrite /where_good /M /where_good /joint /noisy_bit /=.
by case: (tells D); case: (tells E); case: x; case: y.
Qed.

(** A told bit, and one that tells nothing, drawn together: in one case of three they differ. *)
Definition beside (b : bool) (z : bool * bool) : Q :=
  if b then (if z.1 == z.2 then bit true z.1 else 0)
  else if z == (true, false) then 0 else 1 / 3%:R.

Definition either_way b (swap : bool) (z : bool * bool) : Q :=
  beside b (if swap then (z.2, z.1) else z).

Lemma beside_coupled b swap : rarely_differ (1 / 3%:R) (either_way b swap) /\
  coupling (either_way b swap) (if swap then bit true else bit b)
    (if swap then bit b else bit true).
Proof.
pose all4 := [:: (true, true); (true, false); (false, true); (false, false)].
have C0 z : 0 <= either_way b swap z by case: (b); case: (swap); case: z => [[] []].
have tot (f : bool * bool -> Q) m : (forall z, 0 <= f z) -> mass f all4 = m -> total f m.
  by move=> f0 <-; apply: total_finite => // -[[] []].
have mass4 (f : bool * bool -> Q) : mass f all4 =
    f (true, true) + (f (true, false) + (f (false, true) + (f (false, false) + 0))).
  by rewrite /mass !big_cons big_nil.
have one : law (either_way b swap).
  have all1 : mass (either_way b swap) all4 = 1.
    by rewrite mass4 /either_way; case: (b); case: (swap).
  by split=> // s us; rewrite -all1; apply: mass_total us; exact: tot.
split=> [s us|].
  have off0 z : 0 <= where_good (fun z => z.1 != z.2) (either_way b swap) z.
    by rewrite /where_good; case: ifP.
  apply: le_trans (mass_total (tot _ _ off0 erefl) us) _.
  by rewrite mass4 /where_good /either_way; case: (b); case: (swap).
split=> //; split=> u; (apply: tot => [z|]; first by rewrite mulr_ge0 ?ler0n);
  rewrite mass4 /either_way.
  by case: (b); case: (swap); case: u.
by case: (b); case: (swap); case: u.
Qed.

Theorem add_total_variation_event_example : exists (R : realFieldType) (X : eqType)
    (near : seq X -> seq X -> Prop) (T : eqType) (t d e : R) (M : mechanism X R T)
    (H : seq (hypothesis X T)),
  0 <= t /\ claimed_of_coupled H near t d e M /\ (*told*) ~ under H near t d M.
Proof.
exists Q, nat_eqType, (@add_remove nat), bool_eqType, 1, 0, (1 / 3%:R), noisy_bit, [::].
split; first by []. split; last exact: (not_under (u := true) (one_more 1)).
move=> D E _; exists (bit true), (bit true).
have [rare1 pair1] := beside_coupled (tells D) false.
have [rare2 pair2] := beside_coupled (tells E) true.
split; first by exists (fun z => beside (tells D) z).
split; first by exists (fun z => beside (tells E) (z.2, z.1)).
by move=> s us; rewrite mul1r addr0.
Qed.

(** Whether there is at most one record is told first. If that bit is set, the second stage says
    the truth wherever there are more; and it rests on a hypothesis of its own. *)
Theorem for_each_release_example : exists (R : realFieldType) (X : eqType)
    (near : seq X -> seq X -> Prop) (T U : eqType) (t d t' d' : R) (M : mechanism X R T)
    (K : T -> mechanism X R U) (H : seq (hypothesis X T)) (G : seq (T -> hypothesis X U))
    (released : hypothesis X T) (built_from : T -> seq X -> seq X -> bool),
  0 <= t /\ 0 <= t' /\ 0 <= d' /\ has_laws M /\ (forall x, has_laws (K x)) /\ under H near t d M /\
  (forall x, under ((fun D E _ => built_from x D E) :: [seq g x | g <- G]) near t' d' (K x)) /\
  (forall D E x, near D E -> released D E x -> built_from x D E) /\
  (*told*) ~ private near (t * t') (d + d') (fun D => joint (M D) (fun x => K x D)).
Proof.
pose few (D : seq nat) := (size D <= 1)%N; pose M D := bit (few D).
pose K x D := if x && ~~ few D then certain Q (Some (tells D)) else rare D.
pose both D E := few D && few E.
exists Q, nat_eqType, (@add_remove nat), bool_eqType, (option_eqType bool_eqType), 2%:R, 0, 2%:R, 0.
exists M, K, [::], [:: fun=> said], (fun D E _ => both D E), (fun x D E => x ==> both D E).
do 3!(split; first by []); split; first by move=> D; case: (bit_law (few D)).
split; first by move=> x D; rewrite /K; case: ifP => _; [exact: certain_law | exact: rare_laws].
split; first by apply: private_under => D E _; exact: bit_close.
split.
  move=> x D E _; apply: close_pointwise => u; rewrite /where_good /= /both /K.
  by case: x; case: (few D); case: (few E); case: u => [[]|] //=; rewrite /rare;
    case: (tells D); case: (tells E).
split; first by move=> D E x _ ->; rewrite implybT.
have near : add_remove [:: 0; 1; 1]%N [:: 0; 1]%N by left; exists [:: 0%N], 1%N, [:: 1%N].
exact: (not_private (u := (true, Some false)) near).
Qed.

(** The second request is made only if the first answer asks for it. *)
Theorem limits_filter_example : exists (R : realFieldType) (X T : eqType)
    (near : seq X -> seq X -> Prop) (t d : R) (asked : requests R X T),
  inhabited T /\ within_limits near t d asked /\ (*told*) ~ private near 2%:R d (answers asked).
Proof.
pose stop := Stop Q nat_eqType bool_eqType.
pose after (x : bool) := if x then Ask 2%:R 0 noisy_bit (fun=> stop) else stop.
exists Q, nat_eqType, bool_eqType, (@add_remove nat), 4%:R, 0, (Ask 2%:R 0 noisy_bit after).
split; first exact: (inhabits true).
split; last exact: (not_private (u := [:: true; true]) (one_more 1)).
split; first by []. split; first by []. split; first exact: noisy_laws.
split; first exact: noisy_private.
case=> /=; last by split.
split; first by []. split; first by []. split; first exact: noisy_laws.
by split; first exact: noisy_private.
Qed.

(** Their number is public if records are replaced. *)
Theorem public_value_example : exists (R : realFieldType) (X : eqType)
    (near : seq X -> seq X -> Prop) (V : eqType) (query : seq X -> V),
  (forall D E, near D E -> query D = query E) /\ (*told*) exists D E, query D <> query E.
Proof.
exists Q, nat_eqType, (@replace nat), nat_eqType, size; split; last by exists [::], [:: 0%N].
by move=> _ _ [b [x [y [a [-> ->]]]]]; rewrite !size_cat.
Qed.

(** Noise of -1, 0 or 1. *)
Definition steps3 : seq int := [:: -1; 0; 1].
Definition step_noise (z : int) : Q := if z \in steps3 then 1 / 3%:R else 0.
Definition step_above (w : int) : Q := mass (fun y => if w <= y then step_noise y else 0) steps3.

Lemma step_noise_ge0 z : 0 <= step_noise z.
Proof. by rewrite /step_noise; case: ifP. Qed.

Lemma step_noise_law : law step_noise.
Proof.
have all1 : mass step_noise steps3 = 1 by rewrite /mass !big_cons big_nil.
split=> [|s us]; first exact: step_noise_ge0.
rewrite -all1; apply: mass_total us; apply: total_finite => // [|z /negbTE out].
  exact: step_noise_ge0.
by rewrite /step_noise out.
Qed.

Lemma step_tail : tail step_noise step_above.
Proof.
move=> w; apply: total_finite => // z; first by case: ifP => // _; exact: step_noise_ge0.
by rewrite /step_noise => /negbTE->; case: ifP.
Qed.

Lemma step_noise_even z : step_noise (- z) = step_noise z.
Proof.
suff same : (- z \in steps3) = (z \in steps3) by rewrite /step_noise same.
by rewrite !inE !eqr_oppLR opprK oppr0; case: (z == 1); case: (z == 0); case: (z == - 1).
Qed.

(** The number of records, less 1, with noise: above the smaller of two neighbors' in one case of
    three. *)
Theorem released_event_example : exists (R : realFieldType) (X : eqType)
    (near : seq X -> seq X -> Prop) (at_most smaller : bool) (shift slack : int) (moved : nat)
    (e : R) (query : seq X -> int) (p above : int -> R) (H : seq (hypothesis X int_eqType)),
  law p /\ (forall z, p (- z) = p z) /\ tail p above /\
  (forall D E, near D E -> `|query D - query E| <= moved%:Z) /\
  above (missing at_most smaller shift slack moved) <= e /\
  (*told*) ~ rarely_fails (compared at_most smaller slack query) H near 0
    (fun D y => p (y - (query D - shift))).
Proof.
pose number (D : seq nat) : int := (size D)%:Z.
exists Q, nat_eqType, (@add_remove nat), true, true, 1, 0, 1%N, (1 / 3%:R), number.
exists step_noise, step_above, [::]; split; first exact: step_noise_law.
split; first exact: step_noise_even.
split; first exact: step_tail.
split; first by move=> D E /size_step; rewrite /number; lia.
split; first by rewrite /step_above /mass !big_cons big_nil.
by move=> /(_ _ _ (one_more 1) [:: 1] isT); rewrite /mass !big_seq1.
Qed.

(** Two scores of 0 with noise, at a threshold of 0. *)
Theorem kept_by_noise_example : exists (R : realFieldType) (p above : int -> R)
    (threshold score : int),
  law p /\ tail p above /\ exists (records : nat) (e : R) (vs : seq int) (s : seq (seq int)),
  all (fun v => v <= score) vs /\ (size vs <= records)%N /\
  records%:R * above (threshold - score + 1) <= e /\ uniq s /\
  (*told*) above (threshold - score + 1) < mass (where_good (passed threshold) (noisy p vs)) s.
Proof.
exists Q, step_noise, step_above, 0, 0; split; first exact: step_noise_law.
split; first exact: step_tail.
exists 2%N, (2%:R / 3%:R), [:: 0; 0]; exists [:: [:: 1; 1]; [:: 1; 0]; [:: 1; -1]; [:: 0; 1]].
do 2!(split; first by []); split; first by rewrite /step_above /mass !big_cons big_nil.
by split; last by rewrite /step_above /mass !big_cons !big_nil.
Qed.
