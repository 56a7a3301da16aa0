(** Independent draws of which one differs, and mixtures whose parts can be drawn together. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum order.
From mathcomp Require Import ring.
Require Import Definitions Mechanisms Sums Transfer.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Products.
Variable R : realFieldType.
Implicit Types (t d : R).

(** A property of every law of a list. *)
Fixpoint each (A : Type) (p : A -> Prop) (s : seq A) : Prop :=
  if s is x :: rest then p x /\ each p rest else True.

Definition uncons (T : Type) (xs : seq T) : option (T * seq T) :=
  if xs is x :: ys then Some (x, ys) else None.

Lemma uncons_uniq (T : eqType) (s : seq (seq T)) : uniq s -> uniq (pmap (@uncons T) s).
Proof.
move=> us; rewrite -(map_inj_uniq (f := Some)); last by move=> ? ? [].
rewrite pmapS_filter map_inj_in_uniq ?filter_uniq // => xs ys.
rewrite !mem_filter; case: xs => // x xs; case: ys => // y ys.
by move=> _ _ [-> ->].
Qed.

Lemma mass_product (T : eqType) (P : T -> R) (Ps : seq (T -> R)) s :
  mass (product (P :: Ps)) s = mass (joint P (fun _ => product Ps)) (pmap (@uncons T) s).
Proof.
rewrite /mass; elim: s => [|xs s IH]; first by rewrite !big_nil.
by rewrite big_cons IH; case: xs => [|x xs] /=; rewrite ?add0r // big_cons.
Qed.

Lemma close_refl (T : eqType) t (P : T -> R) : 1 <= t -> (forall x, 0 <= P x) -> close t 0 P P.
Proof.
move=> t1 P0 s _; rewrite addr0 -[X in X <= _]mul1r.
by apply: ler_wpmul2r => //; exact: mass_ge0.
Qed.

Lemma product_law (T : eqType) (Ps : seq (T -> R)) : each (@law R T) Ps -> law (product Ps).
Proof.
elim: Ps => [_|P Ps IH [lP /IH lPs]].
  split=> [[|x xs] //=|s us]; rewrite ?ler01 // /mass.
  case nil_s: ([::] \in s).
    rewrite (bigD1_seq [::]) //= big1 ?addr0 // => -[|x xs] //.
  rewrite big1_seq ?ler01 // => -[|x xs] //=.
  by rewrite nil_s.
split=> [[|x xs] //=|s us]; first by rewrite mulr_ge0 ?law_ge0.
by rewrite mass_product; apply: mass_le1 (uncons_uniq us); apply: joint_law.
Qed.

(** Of independent draws one differs, and has the claim; the others are laws, the same on both sides. *)
Lemma close_product (T : eqType) t d (before after : seq (T -> R)) (P Q : T -> R) :
  1 <= t -> 0 <= d -> each (@law R T) before -> each (@law R T) after -> law P -> law Q ->
  close t d P Q -> close t d (product (before ++ P :: after)) (product (before ++ Q :: after)).
Proof.
move=> t1 d0 lb la lP lQ PQ; have t0 : 0 <= t by apply: le_trans t1; exact: ler01.
elim: before lb => [_|B before IH /= [lB lb]] s us; rewrite ?cat_cons !mass_product.
  have := @close_joint R T _ t d 1 0 P Q (fun=> product after) (fun=> product after).
  rewrite mulr1 addr0; apply=> //; try by [exact: ler01 | move=> _; apply: product_law | exact: uncons_uniq].
  by move=> _; apply: close_refl => //; apply: law_ge0; apply: product_law.
have lPs S : law S -> law (product (before ++ S :: after)).
  move=> lS; apply: product_law; elim: before lb {IH} => [_|C before IH [lC lb]] //=.
  by split=> //; apply: IH.
have := @close_joint R T _ 1 0 t d B B (fun=> product (before ++ P :: after))
  (fun=> product (before ++ Q :: after)).
rewrite mul1r add0r; apply=> //; try by [exact: ler01 | move=> _; apply: lPs | exact: uncons_uniq].
- by apply: close_refl => //; exact: law_ge0.
- by move=> _; apply: IH.
Qed.

Lemma total_unique (T : eqType) (f : T -> R) m m' : total f m -> total f m' -> m = m'.
Proof.
by move=> [le least] [le' least']; apply/eqP; rewrite eq_le least // least'.
Qed.

(** Drawing a pair and forgetting one entry is drawing the other. *)
Lemma image_of_coupled (Y Z U : eqType) (C : Z -> R) (g : Z -> Y) (A : Y -> R) (K : Y -> U -> R) N :
  law C -> image C (fun z y => (g z == y)%:R) A -> (forall y, law (K y)) ->
  image A K N -> image C (fun z => K (g z)) N.
Proof.
move=> lC CA lK AN u; split=> [s us|v le_v].
  apply: le_trans (mass_total (AN u) (undup_uniq [seq g z | z <- s])).
  rewrite /mass [LHS in LHS <= _](_ : _ = \sum_(y <- undup [seq g z | z <- s]) \sum_(z <- s | y == g z) C z * K (g z) u).
    apply: ler_sum => y _.
    apply: (@le_trans _ _ (mass (fun z => C z * (g z == y)%:R) s * K y u)).
      rewrite /mass mulr_suml big_mkcond; apply: ler_sum => z _; rewrite eq_sym.
      by case: eqP => [->|_]; rewrite ?mulr1 // mulr0 mul0r.
    by apply: ler_wpmul2r; [exact: law_ge0 | exact: mass_total (CA y) us].
  rewrite [LHS](_ : _ = \sum_(z <- s) \sum_(y <- undup [seq g z | z <- s] | y == g z) C z * K (g z) u); last first.
    apply: eq_big_seq => z zs; rewrite big_mkcond (bigD1_seq (g z)) /= ?undup_uniq //; last first.
      by rewrite mem_undup map_f.
    by rewrite eqxx big1 ?addr0 // => x /negbTE->.
  by rewrite (exchange_big_dep xpredT).
apply: (AN u).2 => l ul.
rewrite /mass [LHS in LHS <= _](_ : _ = \sum_(y <- l) K y u * A y); last by apply: eq_bigr => y _; rewrite mulrC.
have scaled y : total (fun z => K y u * (C z * (g z == y)%:R)) (K y u * A y).
  split=> [s us|b le_b].
    by rewrite /mass -mulr_sumr; apply: ler_wpmul2l; [exact: law_ge0 | exact: mass_total (CA y) us].
  have := law_ge0 (lK y) u; rewrite le_eqVlt => /orP[/eqP K0|K_pos].
    by have := le_b [::] isT; rewrite /mass big_nil -K0 mul0r.
  rewrite mulrC -ler_pdivl_mulr //; apply: (CA y).2 => s us.
  by rewrite ler_pdivl_mulr // mulrC /mass mulr_sumr; exact: le_b.
apply: (sum_totals (f := fun y z => K y u * (C z * (g z == y)%:R)) (N := fun y => K y u * A y))
  => [y z||s us].
- by rewrite mulr_ge0 ?mulr_ge0 ?ler0n //; exact: law_ge0.
- exact: scaled.
rewrite exchange_big /=; apply: le_trans (le_v s us); apply: ler_sum => z _.
case gl: (g z \in l).
  rewrite (bigD1_seq (g z)) //= big1; last by move=> y /negbTE; rewrite eq_sym => ->; rewrite !mulr0.
  by rewrite addr0 eqxx mulr1 mulrC.
rewrite big1_seq ?mulr_ge0 ?law_ge0 // => y /= yl; case: eqP => [e|_]; last by rewrite !mulr0.
by rewrite e yl in gl.
Qed.

(** Two mixtures with the same weights, of laws that are close wherever there is weight. *)
Lemma close_mixtures (Z U : eqType) t d (C : Z -> R) (K K' : Z -> U -> R) N N' :
  0 <= t -> 0 <= d -> law C -> (forall z, law (K z)) -> image C K N -> image C K' N' ->
  (forall z, 0 < C z -> close t d (K z) (K' z)) -> close t d N N'.
Proof.
move=> t0 d0 lC lK CN CN' near s us.
apply: (sum_totals (f := fun u z => C z * K z u) _ CN) => [u z|l ul].
  by rewrite mulr_ge0 ?law_ge0.
rewrite exchange_big /=.
apply: (@le_trans _ _ (\sum_(z <- l) C z * (t * mass (K' z) s + d))).
  apply: ler_sum => z _; rewrite -mulr_sumr.
  have := law_ge0 lC z; rewrite le_eqVlt => /orP[/eqP<-|C_pos]; first by rewrite !mul0r.
  by apply: ler_wpmul2l; [exact: ltW | exact: near].
under eq_bigr do rewrite mulrDr mulrCA.
rewrite big_split /= -mulr_sumr -mulr_suml; apply: ler_add.
  apply: ler_wpmul2l => //; under eq_bigr do rewrite /mass mulr_sumr.
  by rewrite exchange_big /=; apply: ler_sum => u _; exact: mass_total (CN' u) ul.
by rewrite -[X in _ <= X]mul1r; apply: ler_wpmul2r => //; exact: mass_le1.
Qed.

(** What is drawn beforehand can be drawn together so that what follows has the claim for certain. *)
Lemma close_coupling (Y U : eqType) t d (C : Y * Y -> R) (A B : Y -> R) (K : Y -> U -> R) N N' :
  0 <= t -> 0 <= d -> (forall y, law (K y)) -> coupling C A B -> image A K N -> image B K N' ->
  (forall z, 0 < C z -> close t d (K z.1) (K z.2)) -> close t d N N'.
Proof.
move=> t0 d0 lK [lC [CA CB]] AN BN' near.
have CN := image_of_coupled lC CA lK AN; have CN' := image_of_coupled lC CB lK BN'.
by apply: (close_mixtures t0 d0 lC _ CN CN') => // z; exact: lK.
Qed.

End Products.
