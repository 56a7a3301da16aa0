(** Post-processing, weakening, adaptive composition of (t, d), groups, change of adjacency. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum order.
From mathcomp Require Import ring.
Require Import Definitions Mechanisms Sums.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Laws.
Variable R : realFieldType.
Implicit Types (t d : R).

Lemma close_weaken (T : eqType) t d t' d' (P Q : T -> R) :
  (forall x, 0 <= Q x) -> t <= t' -> d <= d' -> close t d P Q -> close t' d' P Q.
Proof.
move=> Q0 tt' dd' PQ s us; apply: le_trans (PQ s us) _.
by apply: ler_add => //; apply: ler_wpmul2r => //; apply: mass_ge0.
Qed.

Lemma close_image (T U : eqType) t d (P Q : T -> R) (K : T -> U -> R) N N' :
  0 <= t -> law P -> law Q -> (forall x, law (K x)) ->
  image P K N -> image Q K N' -> close t d P Q -> close t d N N'.
Proof.
move=> t0 lP lQ lK PN QN PQ s us.
apply: (sum_totals (f := fun u x => P x * K x u)) PN _ => [u x|l ul].
  by rewrite mulr_ge0 ?law_ge0.
rewrite exchange_big /=; under eq_bigr do rewrite -mulr_sumr.
have w01 x : 0 <= \sum_(u <- s) K x u <= 1.
  by rewrite (mass_ge0 s (law_ge0 (lK x))) (mass_le1 (lK x) us).
apply: le_trans (close_weighted PQ ul w01) _; rewrite ler_add2r.
apply: ler_wpmul2l => //; under eq_bigr do rewrite mulr_sumr.
rewrite exchange_big /=; apply: ler_sum => u _.
exact: mass_total (QN u) ul.
Qed.

Lemma close_steps (T : eqType) t d (P Q S : T -> R) t' d' : 0 <= t ->
  close t d P Q -> close t' d' Q S -> close (t * t') (d + t * d') P S.
Proof.
move=> t0 PQ QS s us; apply: le_trans (PQ s us) _.
have -> : t * t' * mass S s + (d + t * d') = t * (t' * mass S s + d') + d by ring.
by rewrite ler_add2r; apply: ler_wpmul2l => //; exact: QS.
Qed.


(** The second release may be chosen after the first. *)
Lemma close_joint (T U : eqType) t d t' d' (P Q : T -> R) (K L : T -> U -> R) :
  0 <= t -> 0 <= t' -> 0 <= d' -> law P -> law Q -> (forall x, law (K x)) -> (forall x, law (L x)) ->
  close t d P Q -> (forall x, close t' d' (K x) (L x)) ->
  close (t * t') (d + d') (joint P K) (joint Q L).
Proof.
move=> t0 t0' d0 lP lQ lK lL PQ KL s us.
rewrite !mass_joint.
set xs := firsts s; have uxs : uniq xs by exact: firsts_uniq.
have ub x : uniq (beside s x) by exact: beside_uniq.
(* on each first release the second costs at most d', and its masses are weights *)
pose w x := Num.min 1 (t' * mass (L x) (beside s x)).
have w01 x : 0 <= w x <= 1.
  by rewrite le_minr ler01 mulr_ge0 ?mass_ge0 ?le_minl ?lexx //; exact: law_ge0.
apply: (@le_trans _ _ (\sum_(x <- xs) P x * w x + d')).
  rewrite -[d' in X in _ <= X]mul1r.
  apply: (@le_trans _ _ (\sum_(x <- xs) P x * w x + \sum_(x <- xs) P x * d')).
    rewrite -big_split /=; apply: ler_sum => x _; rewrite -mulrDr.
    apply: ler_wpmul2l; first exact: law_ge0.
    rewrite /w -ler_subl_addr le_minr !ler_subl_addr; apply/andP; split.
      by apply: le_trans (mass_le1 (lK x) (ub x)) _; rewrite ler_addl.
    exact: KL.
  by rewrite ler_add2l -mulr_suml; apply: ler_wpmul2r => //; exact: mass_le1.
rewrite addrA ler_add2r; apply: le_trans (close_weighted PQ uxs w01) _.
rewrite ler_add2r -mulrA; apply: ler_wpmul2l => //; rewrite mulr_sumr.
apply: ler_sum => x _; rewrite mulrCA; apply: ler_wpmul2l; first exact: law_ge0.
by rewrite /w le_minl lexx orbT.
Qed.

End Laws.
