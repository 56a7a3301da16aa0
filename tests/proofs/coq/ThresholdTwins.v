(** What is false of AboveThreshold, over the real numbers. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum ssrint order.
From mathcomp Require Import ring zify.
From mathcomp.analysis Require Import reals.
Require Import Definitions Mechanisms Sums AboveThreshold Noise NoiseTwins RealSums.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Lemma left_of_one (z : int) : z <= 1 -> z - 1 <= 0.
Proof. lia. Qed.

Lemma right_of_one (z : int) : 1 < z ->
  exists w : nat, z = w.+2%:Z /\ z - 1 = w.+1%:Z /\ z - 1 - 1 = w%:Z.
Proof. by move=> z1; exists `|z - 2|%N; lia. Qed.

Lemma one_less (y : int) (w : nat) : w.+1%:Z <= y -> w%:Z <= y - 1 /\ (`|(y - 1)%R|.+1 = `|y|)%N.
Proof. lia. Qed.

Lemma within_one (y z : int) : 0 <= y <= 1 -> 0 <= z <= 1 -> `|y - z| <= 1.
Proof. lia. Qed.

(** Queries that are all below but for the last one, where a record moves the last one down and all
    others up. The more there are, the higher the threshold is where the last one is reported. *)
Section Apart.
Variables (R : realType) (q qy : R).
Hypotheses (q01 : 0 < q < 1) (qy01 : 0 < qy < 1).

Let p : int -> R := laplace q.
Let py : int -> R := laplace qy.
Let lap : discrete_laplace q p := laplace_of_q q01.
Let lapy : discrete_laplace qy py := laplace_of_q qy01.
Let p_ge0 z : 0 <= p z. Proof. by case: lap => _ [/law_ge0]. Qed.
Let py_ge0 z : 0 <= py z. Proof. by case: lapy => _ [/law_ge0]. Qed.

Lemma laplace_gt0 (a : R) z : 0 < a < 1 -> 0 < laplace a z.
Proof.
case/andP=> a0 a1; rewrite mulr_gt0 ?exprn_gt0 // divr_gt0 ?subr_gt0 //.
by rewrite addr_gt0 ?ltr01.
Qed.

Definition above (w : int) : R := sum_of (fun y => if w <= y then py y else 0).

Lemma tail_above : tail py above.
Proof.
move=> w; apply: (@total_sum_of _ _ _ 1) => s us; have [_ [lpy _]] := lapy.
by apply: le_trans (mass_le1 lpy us); apply: ler_sum => y _; case: ifP.
Qed.

Lemma above_at (w : int) : py w <= above w.
Proof. by have := mass_total (tail_above w) (isT : uniq [:: w]); rewrite /mass big_seq1 lexx. Qed.

(** On the right each step is a factor. *)
Lemma above_step (w : nat) : above w.+1%:Z <= qy * above w%:Z.
Proof.
have qy0 : 0 < qy by case/andP: qy01.
apply: (tail_above _).2 => s us.
have us' : uniq [seq y - 1 | y <- s] by rewrite map_inj_uniq //; exact: addIr.
apply: (le_trans _ (ler_wpmul2l (ltW qy0) (mass_total (tail_above w%:Z) us'))).
rewrite /mass big_map mulr_sumr; apply: ler_sum => y _.
case: ifP => [wy|_]; last by case: ifP => _; rewrite ?mulr0 //; apply: mulr_ge0 => //; exact: ltW.
have [-> size_y] := one_less wy.
by rewrite /py /laplace mulrCA -exprS size_y.
Qed.

Variable n : nat.

Definition queries (D : seq nat) : seq int :=
  if D is [::] then rcons (nseq n 0) 1 else rcons (nseq n 1) 0.
Arguments queries D : simpl never.

Definition reports (D : seq nat) (k : nat) : R :=
  sum_of (fun z => p z * report above (queries D) z k).

Lemma report_ge0 D z k : 0 <= report above (queries D) z k.
Proof. exact: law_ge0 (report_law lapy tail_above _ _) k. Qed.

Lemma reports_image D : image p (report above (queries D)) (reports D).
Proof.
move=> k; apply: (@total_sum_of _ _ _ 1) => s us; have [_ [lp _]] := lap.
apply: le_trans (mass_le1 lp us); apply: ler_sum => z _; rewrite ler_pimulr //.
exact: law_le1 (report_law lapy tail_above _ _).
Qed.

Lemma first_above_last (c b : R) : first_above (rcons (nseq n c) b) n = (1 - c) ^+ n * b.
Proof. by elim: n => [|k IH] /=; rewrite ?expr0 ?mul1r // IH exprS mulrA. Qed.

Lemma report_below z : report above (queries [::]) z n = (1 - above z) ^+ n * above (z - 1).
Proof. by rewrite /report /queries map_rcons map_nseq subr0 first_above_last. Qed.

Lemma report_over x z : report above (queries [:: x]) z n = (1 - above (z - 1)) ^+ n * above z.
Proof. by rewrite /report /queries map_rcons map_nseq subr0 first_above_last. Qed.

Lemma reports_over x : reports [:: x] n <= q * qy ^+ 2 * reports [::] n + (1 - above 0) ^+ n.
Proof.
have [[q0 q1] [qy0 qy1]] := (andP q01, andP qy01); have [_ [lp _]] := lap.
have a01 w := above01 lapy tail_above w.
have low w : 0 <= 1 - above w by rewrite subr_ge0; case/andP: (a01 w).
apply: (reports_image _ _).2 => s us.
have us' : uniq [seq z - 1 | z <- s] by rewrite map_inj_uniq //; exact: addIr.
have k0 : 0 <= q * qy ^+ 2 by rewrite mulr_ge0 ?exprn_ge0 ?ltW.
apply: (@le_trans _ _ (q * qy ^+ 2 * mass (fun z => p z * report above (queries [::]) z n)
    [seq z - 1 | z <- s] + (1 - above 0) ^+ n * mass p s)); last first.
  apply: ler_add; first by apply: ler_wpmul2l => //; exact: mass_total (reports_image _ _) us'.
  by rewrite ler_pimulr ?exprn_ge0 // mass_le1.
rewrite /mass big_map !mulr_sumr -big_split; apply: ler_sum => z _ /=.
rewrite report_over report_below; set a := above (z - 1).
have /andP[a0 a1] := a01 (z - 1); have /andP[az0 az1] := a01 z.
case: (lerP z 1) => z1.
  apply: (@le_trans _ _ ((1 - above 0) ^+ n * p z)); last first.
    rewrite ler_addr; do 2!apply: mulr_ge0 => //.
    by apply: mulr_ge0; [exact: exprn_ge0 (low _) | case/andP: (a01 (z - 1 - 1))].
  rewrite mulrCA; apply: ler_pmul => //; first exact: exprn_ge0 (low _).
  - exact: mulr_ge0.
  - apply: ler_expn2r; rewrite ?nnegrE; [exact: low | exact: low |].
    by rewrite ler_add2l ler_opp2; apply: (above_falls lapy tail_above); exact: left_of_one.
  by rewrite ler_pimulr.
rewrite -[X in X <= _]addr0; apply: ler_add; last first.
  by apply: mulr_ge0 => //; exact: exprn_ge0 (low _).
have [w [zw [ez ez2]]] := right_of_one z1.
have -> : p z = q * p (z - 1).
  by rewrite /p /laplace mulrCA -exprS ez zw.
have le_a : above z <= qy ^+ 2 * above (z - 1 - 1).
  rewrite zw -zw ez2 zw; apply: (le_trans (above_step w.+1)).
  by rewrite expr2 -mulrA; apply: ler_wpmul2l; [exact: ltW | exact: above_step].
have shuffled (b c d e f : R) : b * c * (d * (e * f)) = b * d * (e * (c * f)) by ring.
rewrite shuffled.
apply: ler_wpmul2l; first by rewrite mulr_ge0 // ltW.
by apply: ler_wpmul2l => //; exact: exprn_ge0 (low _).
Qed.

Lemma reports_below : p 2 * ((1 - above 2) ^+ n * above 1) <= reports [::] n.
Proof.
have := mass_total (reports_image [::] n) (isT : uniq [:: 2 : int]).
by rewrite /mass big_seq1 report_below.
Qed.

Lemma queries_move D E : size (queries D) = size (queries E) /\
  forall i, `|nth 0 (queries D) i - nth 0 (queries E) i| <= 1%:Z.
Proof.
have sizes F : size (queries F) = n.+1 by case: F => [|x F]; rewrite size_rcons size_nseq.
split=> [|i]; first by rewrite !sizes.
have near F : 0 <= nth 0 (queries F) i <= 1%:Z.
  case: F => [|x F]; rewrite nth_rcons nth_nseq size_nseq; case: (i < n)%N => //; by case: (i == n).
exact: within_one.
Qed.

(** With enough queries the loss comes as near to that of both noises together as one likes. *)
Variables (t : R).
Hypotheses (t0 : 0 < t) (small : t * (q * qy ^+ 2) < 1).

Lemma told_apart_by (x : nat) : p 2 * above 1 * (1 - t * (q * qy ^+ 2)) * (1 - above 2) ^+ n >
    t * (1 - above 0) ^+ n -> ~ close t 0 (reports [::]) (reports [:: x]).
Proof.
move=> grown /(_ [:: n] isT); rewrite /mass !big_seq1 addr0 => le_t.
have rest : 0 <= 1 - t * (q * qy ^+ 2) by rewrite subr_ge0 ltW.
move: grown; apply/negP; rewrite -leNgt.
apply: (@le_trans _ _ ((1 - t * (q * qy ^+ 2)) * reports [::] n)).
  by rewrite mulrAC mulrC -mulrA [above 1 * _]mulrC; apply: ler_wpmul2l => //; exact: reports_below.
rewrite mulrBl mul1r ler_subl_addl; apply: (le_trans le_t); rewrite -mulrA -mulrDr.
by apply: ler_wpmul2l; [exact: ltW | exact: reports_over].
Qed.

End Apart.

Section Twins.
Variable R : realType.

Lemma told_apart (q qy t : R) : 0 < q < 1 -> 0 < qy < 1 -> 0 < t -> t * (q * qy ^+ 2) < 1 ->
  exists n, ~ close t 0 (reports q qy n [::]) (reports q qy n [:: 0%N]).
Proof.
move=> q01 qy01 t0 small; have /andP[qy0 qy1] := qy01.
have a0 : 0 < above qy 0 by apply: lt_le_trans (above_at qy01 0); exact: laplace_gt0.
have a1 : 0 < above qy 1 by apply: lt_le_trans (above_at qy01 1); exact: laplace_gt0.
have a01 := above01 (laplace_of_q qy01) (tail_above qy01) 0.
have falls : above qy 2 < above qy 0.
  apply: (le_lt_trans (above_step qy01 1)); apply: le_lt_trans (_ : above qy 1 < _).
    by rewrite ler_pimull // ltW.
  by apply: (le_lt_trans (above_step qy01 0)); rewrite gtr_pmull.
pose k := laplace q 2 * above qy 1 * (1 - t * (q * qy ^+ 2)).
have k0 : 0 < k.
  by apply: mulr_gt0; [apply: mulr_gt0 => //; exact: laplace_gt0 | rewrite subr_gt0].
have [|||n grown] := @outgrown R (t / k) (1 - above qy 0) (1 - above qy 2).
- by rewrite divr_ge0 ?ltW.
- by rewrite subr_ge0; case/andP: a01.
- by rewrite ler_lt_sub.
exists n; apply: told_apart_by => //.
by move: grown; rewrite mulrAC ltr_pdivr_mulr // [_ * k]mulrC.
Qed.

Lemma near_one (D E : seq nat) : D = [::] /\ E = [:: 0%N] -> add_remove D E.
Proof. by case=> -> ->; right; exists [::], 0%N, [::]. Qed.

Lemma inverse_ge1 (h : R) k : 0 < h < 1 -> 1 <= (h ^+ k)^-1.
Proof.
case/andP=> h0 h1.
by rewrite invr_ge1 ?unitfE ?expf_neq0 ?gt_eqF ?exprn_gt0 // exprn_ile1 ?ltW.
Qed.

Lemma half01 : 0 < (2%:R : R)^-1 < 1.
Proof. by rewrite invr_gt0 ltr0n invf_lt1 ?ltr0n // ltr1n. Qed.

Lemma queries_move_by n near : move_by (queries n) near 1.
Proof. by move=> D E _; exact: queries_move. Qed.

(** above_threshold: noise on the queries of no larger scale than the threshold's. *)
Theorem above_threshold_twin : ~ forall (queries : seq nat -> seq int) (q qy : R)
    (p py above : int -> R) (M : mechanism nat R nat_eqType),
  discrete_laplace q p -> discrete_laplace qy py -> tail py above ->
  (forall D, image p (report above (queries D)) (M D)) ->
  forall (near : seq nat -> seq nat -> Prop) (moved : nat) (t d : R), 1 <= t ->
  move_by queries near moved -> close t d p (fun z => p (z + (2 * moved)%N%:Z)) ->
  private near t d M.
Proof.
move=> twin; have := half01; set h := (2%:R : R)^-1 => h01; have [h0 h1] := andP h01.
have [||n far] := told_apart h01 h01 (t := (h ^+ 2)^-1).
- by rewrite invr_gt0 exprn_gt0.
- by rewrite mulrCA mulVf ?mulr1 // expf_neq0 // gt_eqF.
apply: far; apply: (twin (queries n) h h _ _ _ _ (laplace_of_q h01) (laplace_of_q h01)
  (tail_above h01) (reports_image h01 h01 n) (@add_remove nat) 1%N).
- exact: inverse_ge1.
- exact: queries_move_by.
- exact: (shift_is_pure (laplace_of_q h01) 1).
- exact: near_one.
Qed.

(** above_threshold: the shift is by twice what a query moves. *)
Theorem above_threshold_shift_twin : ~ forall (queries : seq nat -> seq int) (q qy : R)
    (p py above : int -> R) (M : mechanism nat R nat_eqType),
  discrete_laplace q p -> discrete_laplace qy py -> tail py above ->
  (forall D, image p (report above (queries D)) (M D)) ->
  forall (near : seq nat -> seq nat -> Prop) (moved : nat) (t d : R), 1 <= t -> q <= qy ^+ 2 ->
  move_by queries near moved -> close t d p (fun z => p (z + moved%:Z)) -> private near t d M.
Proof.
move=> twin; have := half01; set h := (2%:R : R)^-1 => h01; have [h0 h1] := andP h01.
have q01 : 0 < h ^+ 2 < 1 by rewrite exprn_gt0 // exprn_ilt1 // ltW.
have [q0 q1] := andP q01.
have [||n far] := told_apart q01 h01 (t := (h ^+ 2 ^+ 1)^-1).
- by rewrite invr_gt0 exprn_gt0.
- by rewrite expr1 mulrA mulVf ?mul1r // gt_eqF.
apply: far; apply: (twin (queries n) (h ^+ 2) h _ _ _ _ (laplace_of_q q01) (laplace_of_q h01)
  (tail_above h01) (reports_image q01 h01 n) (@add_remove nat) 1%N).
- exact: inverse_ge1.
- by [].
- exact: queries_move_by.
- by apply: close_pointwise => z; exact: (masses_moved 1 (laplace_of_q q01)).
- exact: near_one.
Qed.

(** above_threshold_one_way: queries that move both ways need noise of twice the scale. *)
Theorem above_threshold_one_way_twin : ~ forall (queries : seq nat -> seq int) (q qy : R)
    (p py above : int -> R) (M : mechanism nat R nat_eqType),
  discrete_laplace q p -> discrete_laplace qy py -> tail py above ->
  (forall D, image p (report above (queries D)) (M D)) ->
  forall (near : seq nat -> seq nat -> Prop) (moved : nat) (t d : R), 1 <= t -> q <= qy ->
  total p 1 -> move_by queries near moved ->
  close t d p (fun z => p (z + (2 * moved)%N%:Z)) -> private near t d M.
Proof.
move=> twin; have := half01; set h := (2%:R : R)^-1 => h01; have [h0 h1] := andP h01.
have [||n far] := told_apart h01 h01 (t := (h ^+ 2)^-1).
- by rewrite invr_gt0 exprn_gt0.
- by rewrite mulrCA mulVf ?mulr1 // expf_neq0 // gt_eqF.
apply: far; apply: (twin (queries n) h h _ _ _ _ (laplace_of_q h01) (laplace_of_q h01)
  (tail_above h01) (reports_image h01 h01 n) (@add_remove nat) 1%N).
- exact: inverse_ge1.
- exact: lexx.
- exact: laplace_total.
- exact: queries_move_by.
- exact: (shift_is_pure (laplace_of_q h01) 1).
- exact: near_one.
Qed.

End Twins.
