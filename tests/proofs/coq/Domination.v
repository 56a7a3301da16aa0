(** Composition by domination. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum order.
From mathcomp Require Import ring.
Require Import Definitions Mechanisms Sums Transfer Products.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Domination.
Variable R : realFieldType.
Implicit Types (a b d : R).

Lemma dominated_close (T U : eqType) t d (P Q : T -> R) (A B : U -> R) :
  0 <= t -> dominated P Q A B -> close t d A B -> close t d P Q.
Proof.
move=> t0 dom AB s us; have := dom 1 t d ler01 t0; rewrite /tested.
by move=> /(_ _ s us); rewrite mul1r; apply=> s' us'; rewrite mul1r; exact: AB.
Qed.

Lemma dominated_trans (T U V : eqType) (P Q : T -> R) (A B : U -> R) (C D : V -> R) :
  dominated P Q A B -> dominated A B C D -> dominated P Q C D.
Proof. by move=> PA AC a b d a0 b0 /AC; move/(_ a0 b0); exact: PA. Qed.

(** Values that are at most every bound of a family of tests, added up. *)
Lemma sum_of_tested (T : eqType) (I : Type) (ok : I -> Prop) (c : T -> R) (val : T -> I -> R)
    (xs : seq T) d (i0 : I) : ok i0 -> uniq xs ->
  (forall x e, (forall i, ok i -> val x i <= e) -> c x <= e) ->
  (forall f : T -> I, (forall x, ok (f x)) -> \sum_(x <- xs) val x (f x) <= d) ->
  \sum_(x <- xs) c x <= d.
Proof.
move=> ok0 uxs bound; elim: xs uxs d => [|x xs IH] /= uxs d le_d.
  by have := le_d (fun=> i0) (fun=> ok0); rewrite !big_nil.
case/andP: uxs => x_xs uxs; rewrite big_cons -ler_subr_addr; apply: bound => i ok_i.
rewrite ler_subr_addr addrC -ler_subr_addr; apply: IH => // f ok_f.
rewrite ler_subr_addr addrC.
pose m y := if y == x then i else f y.
have um y : ok (m y) by rewrite /m; case: eqP.
apply: le_trans (le_d m um); rewrite big_cons {1}/m eqxx.
rewrite ler_add2l le_eqVlt; apply/orP; left; apply/eqP; apply: eq_big_seq => y y_xs.
by rewrite /m; case: eqP => // e; rewrite -e y_xs in x_xs.
Qed.

(** The second release of a pair, replaced by the pair that dominates it. *)
Lemma dominated_second (T U V : eqType) (P Q : T -> R) (K L : T -> U -> R) (A B : V -> R) :
  (forall x, 0 <= P x) -> (forall x, 0 <= Q x) -> (forall x, dominated (K x) (L x) A B) ->
  dominated (joint P K) (joint Q L) (joint P (fun=> A)) (joint Q (fun=> B)).
Proof.
move=> P0 Q0 dom a b d a0 b0 AB s us.
rewrite -ler_subl_addl !mass_joint !mulr_sumr -sumrB.
have /= := @sum_of_tested T (seq V) uniq
  (fun x => a * (P x * mass (K x) (beside s x)) - b * (Q x * mass (L x) (beside s x)))
  (fun x l => a * (P x * mass A l) - b * (Q x * mass B l)) (firsts s) d [::] isT (firsts_uniq s).
apply=> [x e le_e|l ul].
  rewrite ler_subl_addl !mulrA.
  apply: (dom x (a * P x) (b * Q x) e _ _ _ _ (beside_uniq x us)); try exact: mulr_ge0.
  by move=> l ul; have := le_e l ul; rewrite ler_subl_addl !mulrA.
have us' : uniq [seq (x, y) | x <- firsts s, y <- l x].
  apply: allpairs_uniq_dep => [|x _|]; [exact: firsts_uniq | exact: ul |].
  by move=> [x y] [x' y'] _ _ /= [-> ->].
have pairs (F : T -> R) (G : V -> R) : mass (joint F (fun=> G)) [seq (x, y) | x <- firsts s, y <- l x] =
    \sum_(x <- firsts s) F x * mass G (l x).
  by rewrite /mass big_allpairs_dep; apply: eq_bigr => x _; rewrite mulr_sumr.
have := AB _ us'; rewrite !pairs -ler_subl_addl => le_d; apply: le_trans le_d.
by rewrite sumrB !mulr_sumr.
Qed.

Definition swapped (T U : eqType) (F : T * U -> R) (z : U * T) : R := F (z.2, z.1).

Lemma dominated_swapped (T U : eqType) (F G : T * U -> R) :
  dominated F G (swapped F) (swapped G) /\ dominated (swapped F) (swapped G) F G.
Proof.
have inj (V W : eqType) : injective (fun z : V * W => (z.2, z.1)) by move=> [x y] [x' y'] [-> ->].
split=> a b d a0 b0 FG s us.
  have us' : uniq [seq (z.2, z.1) | z <- s] by rewrite map_inj_uniq //; exact: inj.
  have := FG _ us'; rewrite /mass !big_map /swapped /=.
  by under eq_bigr do rewrite -surjective_pairing; under [X in _ <= _ * X + _]eq_bigr do rewrite -surjective_pairing.
have us' : uniq [seq (z.2, z.1) | z <- s] by rewrite map_inj_uniq //; exact: inj.
by have := FG _ us'; rewrite /mass !big_map /swapped /=.
Qed.

(** Releases in turn, the second chosen after the first, are dominated by independent draws of the pairs
    that dominate each. *)
Theorem compose_dominated (T U V W : eqType) (P Q : T -> R) (K L : T -> U -> R) (A B : V -> R)
    (C D : W -> R) :
  law P -> law Q -> law C -> law D -> dominated P Q A B -> (forall x, dominated (K x) (L x) C D) ->
  dominated (joint P K) (joint Q L) (joint A (fun=> C)) (joint B (fun=> D)).
Proof.
move=> lP lQ lC lD PA KC.
apply: (dominated_trans (dominated_second (law_ge0 lP) (law_ge0 lQ) KC)).
apply: (dominated_trans (dominated_swapped _ _).1).
have swap (F : T -> R) (G : W -> R) : swapped (joint F (fun=> G)) =1 joint G (fun=> F).
  by move=> z; rewrite /swapped /joint /= mulrC.
have eqd (Y Z : eqType) (F F' G G' : Y -> R) (M N : Z -> R) :
    F =1 F' -> G =1 G' -> dominated F' G' M N -> dominated F G M N.
  move=> FF GG dom a b d a0 b0 MN s us; have := dom a b d a0 b0 MN s us.
  by rewrite /mass (eq_bigr _ (fun x _ => FF x)) (eq_bigr _ (fun x _ => GG x)).
apply: (eqd _ _ _ _ _ _ _ _ (swap _ _) (swap _ _)).
apply: (dominated_trans (dominated_second (law_ge0 lC) (law_ge0 lD) (fun=> PA))).
apply: (dominated_trans (dominated_swapped _ _).1).
apply: (eqd _ _ (swapped (joint C (fun=> A))) (joint A (fun=> C)) (swapped (joint D (fun=> B))) (joint B (fun=> D))).
- by move=> z; rewrite /swapped /joint /= mulrC.
- by move=> z; rewrite /swapped /joint /= mulrC.
by move=> a b d _ _.
Qed.

End Domination.
