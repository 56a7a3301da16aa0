(** Facts about finite sums and laws that the theorems use. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum order.
From mathcomp Require Import ring.
Require Import Definitions Mechanisms.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Sums.
Variable R : realFieldType.
Notation certain := (@certain R _).
Implicit Types (t d : R).

Lemma mass_ge0 (T : eqType) (P : T -> R) s : (forall x, 0 <= P x) -> 0 <= mass P s.
Proof. by move=> P0; apply: sumr_ge0. Qed.

Lemma law_ge0 (T : eqType) (P : T -> R) : law P -> forall x, 0 <= P x.
Proof. by case. Qed.

Lemma mass_le1 (T : eqType) (P : T -> R) s : law P -> uniq s -> mass P s <= 1.
Proof. by case=> _; apply. Qed.

Lemma law_le1 (T : eqType) (P : T -> R) x : law P -> P x <= 1.
Proof. by case=> _ /(_ [:: x] erefl); rewrite /mass big_seq1. Qed.

(** Weights between zero and one do not help to tell laws apart. *)
Lemma close_weighted (T : eqType) t d (P Q : T -> R) (w : T -> R) s :
  close t d P Q -> uniq s -> (forall x, 0 <= w x <= 1) ->
  \sum_(x <- s) P x * w x <= t * (\sum_(x <- s) Q x * w x) + d.
Proof.
move=> PQ us w01.
set above := [seq x <- s | t * Q x <= P x].
have le_d : \sum_(x <- above) (P x - t * Q x) <= d.
  by rewrite sumrB -mulr_sumr ler_subl_addl; apply: PQ; apply: filter_uniq.
rewrite -ler_subl_addl mulr_sumr -sumrB; apply: le_trans le_d.
rewrite big_filter (bigID (fun x => t * Q x <= P x)) /=.
rewrite -[X in _ <= X]addr0; apply: ler_add.
- apply: ler_sum => x le_x; rewrite mulrA -mulrBl.
  by have /andP[w0 w1] := w01 x; rewrite ler_pimulr // subr_ge0.
- rewrite -oppr_ge0 -sumrN; apply: sumr_ge0 => x; rewrite -ltNge => lt_x.
  rewrite oppr_ge0 mulrA -mulrBl.
  have /andP[w0 _] := w01 x.
  by rewrite mulr_le0_ge0 // subr_le0 ltW.
Qed.

Lemma mass_sub (T : eqType) (P : T -> R) s s' : (forall x, 0 <= P x) -> uniq s ->
  {subset s <= s'} -> mass P s <= mass P (undup s').
Proof.
move=> P0 us sub; rewrite /mass [X in _ <= X](bigID (mem s)) /=.
rewrite -[X in X <= _]addr0; apply: ler_add; last exact: sumr_ge0.
rewrite -[X in _ <= X]big_filter le_eqVlt; apply/orP; left; apply/eqP; apply: perm_big; apply: uniq_perm => //.
  by rewrite filter_uniq // undup_uniq.
move=> x; rewrite mem_filter mem_undup andbC.
by case xs: (x \in s); rewrite ?andbF // sub.
Qed.

(** A finite sum of totals is bounded by what bounds all finite double sums. *)
Lemma sum_totals (T U : eqType) (f : U -> T -> R) (N : U -> R) s B :
  (forall u x, 0 <= f u x) -> (forall u, total (f u) (N u)) ->
  (forall l, uniq l -> \sum_(u <- s) mass (f u) l <= B) -> \sum_(u <- s) N u <= B.
Proof.
move=> f0 tot; elim: s B => [|u s IH] B le_B.
  by have := le_B [::] erefl; rewrite !big_nil.
rewrite big_cons -ler_subr_addr; apply: (tot u).2 => l ul.
rewrite ler_subr_addr addrC -ler_subr_addr; apply: IH => l' ul'.
rewrite ler_subr_addr addrC.
apply: le_trans (le_B (undup (l ++ l')) (undup_uniq _)).
rewrite big_cons; apply: ler_add.
  by apply: mass_sub => // x xl; rewrite mem_cat xl.
by apply: ler_sum => v _; apply: mass_sub => // x xl; rewrite mem_cat xl orbT.
Qed.

Lemma mass_total (T : eqType) (f : T -> R) m s : total f m -> uniq s -> mass f s <= m.
Proof. by case=> le_m _; exact: le_m. Qed.

(** What a randomized map makes of a law is a law. *)
Lemma image_law (T U : eqType) (P : T -> R) (K : T -> U -> R) N :
  law P -> (forall x, law (K x)) -> image P K N -> law N.
Proof.
move=> lP lK PN; split.
  by move=> u; apply: le_trans (mass_total (PN u) (isT : uniq [::])); rewrite /mass big_nil.
move=> s us; apply: (sum_totals (f := fun u x => P x * K x u)) PN _ => [u x|l ul].
  by rewrite mulr_ge0 ?law_ge0.
rewrite exchange_big /=; apply: le_trans (mass_le1 lP ul); apply: ler_sum => x _.
rewrite -mulr_sumr -[X in _ <= X]mulr1; apply: ler_wpmul2l; first exact: law_ge0.
exact: mass_le1.
Qed.

(** A sum over pairs, one first entry after the other. *)
Definition firsts (T U : eqType) (s : seq (T * U)) : seq T := undup [seq z.1 | z <- s].
Definition beside (T U : eqType) (s : seq (T * U)) (x : T) : seq U := [seq z.2 | z <- s & z.1 == x].

Lemma firsts_uniq (T U : eqType) (s : seq (T * U)) : uniq (firsts s).
Proof. exact: undup_uniq. Qed.

Lemma beside_uniq (T U : eqType) (s : seq (T * U)) x : uniq s -> uniq (beside s x).
Proof.
move=> us; rewrite map_inj_in_uniq ?filter_uniq // => z z'; rewrite !mem_filter.
case/andP=> /eqP zx _ /andP[/eqP zx' _] e.
by rewrite [z]surjective_pairing [z']surjective_pairing zx zx' e.
Qed.

Lemma sum_pairs (T U : eqType) (F : T * U -> R) s :
  \sum_(z <- s) F z = \sum_(x <- firsts s) \sum_(u <- beside s x) F (x, u).
Proof.
rewrite [LHS](_ : _ = \sum_(z <- s) \sum_(x <- firsts s | x == z.1) F z); last first.
  apply: eq_big_seq => z zs; rewrite big_mkcond (bigD1_seq z.1) /= ?firsts_uniq //; last first.
    by rewrite mem_undup map_f.
  by rewrite eqxx big1 ?addr0 // => x /negbTE->.
rewrite (exchange_big_dep xpredT) //=; apply: eq_bigr => x _.
rewrite /beside big_map big_filter; apply: eq_big => z; first by rewrite eq_sym.
by move=> /eqP->; rewrite -surjective_pairing.
Qed.

Lemma mass_joint (T U : eqType) (P : T -> R) (K : T -> U -> R) s :
  mass (joint P K) s = \sum_(x <- firsts s) P x * mass (K x) (beside s x).
Proof.
by rewrite /mass sum_pairs; apply: eq_bigr => x _; rewrite mulr_sumr.
Qed.

Lemma joint_law (T U : eqType) (P : T -> R) (K : T -> U -> R) :
  law P -> (forall x, law (K x)) -> law (joint P K).
Proof.
move=> lP lK; split=> [z|s us]; first by rewrite mulr_ge0 ?law_ge0.
rewrite mass_joint; apply: le_trans (mass_le1 lP (firsts_uniq s)); apply: ler_sum => x _.
rewrite -[X in _ <= X]mulr1; apply: ler_wpmul2l; first exact: law_ge0.
by apply: mass_le1 => //; exact: beside_uniq.
Qed.

(** What is nonzero on a finite list has the total of that list. *)
Lemma total_finite (T : eqType) (f : T -> R) l : uniq l -> (forall x, 0 <= f x) ->
  (forall x, x \notin l -> f x = 0) -> total f (mass f l).
Proof.
move=> ul f0 out; split=> [s us|u]; last exact.
rewrite -[l in X in _ <= X](undup_id ul); apply: (@le_trans _ _ (mass f [seq x <- s | x \in l])).
  rewrite /mass big_filter [X in _ <= X]big_mkcond; apply: ler_sum => x _.
  by case: ifP => // /negbT/out->.
by apply: mass_sub => // [|x]; rewrite ?filter_uniq // mem_filter => /andP[].
Qed.

Lemma mass_certain (T : eqType) (x0 : T) s : uniq s -> mass (certain x0) s = (x0 \in s)%:R.
Proof.
move=> us; rewrite /mass; case in_s: (x0 \in s).
  by rewrite (bigD1_seq x0) //= /certain eqxx big1 ?addr0 // => x /negbTE->.
by rewrite big1_seq // => x /=; rewrite /certain; case: eqP => [->|//]; rewrite in_s.
Qed.

Lemma certain_law (T : eqType) (x0 : T) : law (certain x0).
Proof.
split=> [x|s us]; first exact: ler0n.
by rewrite mass_certain // lern1 leq_b1.
Qed.

(** What follows a certain draw. *)
Lemma image_certain (T U : eqType) (x0 : T) (K : T -> U -> R) :
  (forall x u, 0 <= K x u) -> image (certain x0) K (K x0).
Proof.
move=> K0 u; have -> : K x0 u = mass (fun x => certain x0 x * K x u) [:: x0].
  by rewrite /mass big_seq1 /certain eqxx mul1r.
apply: total_finite => // x; first by rewrite mulr_ge0 ?ler0n.
by rewrite inE /certain => /negbTE->; rewrite mul0r.
Qed.

End Sums.
