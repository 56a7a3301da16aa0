(** Parts, scalings and products of pairs that are Gaussian private. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum order.
From mathcomp Require Import ring.
Require Import Definitions Mechanisms Sums Transfer Products Domination Gaussian.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section GaussianParts.
Variable R : realFieldType.
Variable gaussian : R -> (nat -> R) -> (nat -> R) -> Prop.
Hypothesis images_are_laws : forall m A B, gaussian m A B ->
  law A /\ law B /\ total A 1 /\ total B 1.
Hypothesis some_image : forall m, 0 <= m -> exists A B, gaussian m A B.
Hypothesis common_refinement : forall m A B A' B', gaussian m A B -> gaussian m A' B' ->
  exists C D, gaussian m C D /\ coarser A B C D /\ coarser A' B' C D.
Hypothesis products_add : forall m n A B C D, gaussian m A B -> gaussian n C D ->
  forall a b d, 0 <= a -> 0 <= b -> all_tested gaussian (m + n) a b d ->
  tested a b d (joint A (fun=> C)) (joint B (fun=> D)).

Notation gdp := (@gdp R gaussian).
Notation approximate_gdp := (@approximate_gdp R gaussian).

Lemma tested_ge0 m a b d : 0 <= m -> all_tested gaussian m a b d -> 0 <= d.
Proof.
move=> m0 all_m; have [A [B AB]] := some_image m0.
by have := all_m _ _ AB [::] isT; rewrite /mass !big_nil !mulr0 add0r.
Qed.

(** A larger mu promises less. *)
Lemma gdp_weaken (T : eqType) m n (P S : T -> R) : 0 <= m <= n -> gdp m P S -> gdp n P S.
Proof.
case/andP=> m0 mn mPS a b d a0 b0 all_n; apply: mPS => // A B AB s us.
have nm0 : 0 <= n - m by rewrite subr_ge0.
have [C [D CD]] := some_image nm0; have [lC [lD [totC _]]] := images_are_laws CD.
have both : tested a b d (joint A (fun=> C)) (joint B (fun=> D)).
  by apply: (products_add AB CD a0 b0); rewrite addrCA subrr addr0.
have [lA [lB _]] := images_are_laws AB.
have d0 : 0 <= d by apply: tested_ge0 all_n; exact: le_trans m0 mn.
have c0 : 0 <= a * mass A s by rewrite mulr_ge0 ?mass_ge0 //; exact: law_ge0.
have e0 : 0 <= b * mass B s + d by rewrite addr_ge0 ?mulr_ge0 ?mass_ge0 //; exact: law_ge0.
move: c0; rewrite le_eqVlt => /orP[/eqP <- //|c_pos].
rewrite -[X in X <= _]mulr1 mulrC -ler_pdivl_mulr //; apply: totC.2 => l ul.
rewrite ler_pdivl_mulr //.
have us' : uniq [seq (x, y) | x <- s, y <- l].
  by rewrite allpairs_uniq // => -[x y] [x' y'].
have := both _ us'; rewrite !mass_pairs -!mulr_suml => le.
apply: (@le_trans _ _ (b * (mass B s * mass D l) + d)); last first.
  rewrite ler_add2r; apply: ler_wpmul2l => //; rewrite ler_pimulr ?mass_ge0 //; first exact: law_ge0.
  exact: mass_le1.
by rewrite mulrC -mulrA.
Qed.

(** A part of a law is told apart no more easily. *)
Lemma gdp_part (T : eqType) m (P P' S : T -> R) : 0 <= m ->
  (forall x, P' x <= P x) -> gdp m P S -> gdp m P' S.
Proof.
move=> m0 le_P mPS a b d a0 b0 all_m s us; apply: le_trans (mPS a b d a0 b0 all_m s us).
by apply: ler_wpmul2l => //; apply: ler_sum => x _.
Qed.

Lemma gdp_none (T : eqType) m (S : T -> R) : 0 <= m -> (forall x, 0 <= S x) -> gdp m (fun=> 0) S.
Proof.
move=> m0 S0 a b d a0 b0 all_m s _; rewrite /mass big1 // mulr0.
by rewrite addr_ge0 ?mulr_ge0 ?mass_ge0 //; exact: tested_ge0 all_m.
Qed.


(** Independent releases, one for each entry of a list. *)
Lemma gdp_product (K T : eqType) (ks : seq K) (m : K -> R) (P S : K -> T -> R) :
  (forall k, 0 <= m k) -> (forall k, law (P k)) -> (forall k, law (S k)) -> (forall k, gdp (m k) (P k) (S k)) ->
  gdp (\sum_(k <- ks) m k) (product [seq P k | k <- ks]) (product [seq S k | k <- ks]).
Proof.
move=> m0 lP lS PS; elim: ks => [|k ks IH].
  rewrite big_nil; apply: (gdp_same images_are_laws some_image (lexx 0)).
  exact: (@product_law R T [::] I).
rewrite big_cons /= => a b d a0 b0 all_m s us; rewrite !mass_product.
have rest0 : 0 <= \sum_(k' <- ks) m k' by apply: sumr_ge0.
apply: (gdp_joint images_are_laws some_image common_refinement products_add (m0 k) rest0 _ _ (PS k) (fun=> IH) a0 b0 all_m);
  [exact: law_ge0 | exact: law_ge0 | exact: uncons_uniq].
Qed.

End GaussianParts.
