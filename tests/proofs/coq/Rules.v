(** The rules about mechanisms: each theorem is what a function of the kernel claims. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum order.
From mathcomp Require Import ring.
Require Import Definitions Mechanisms Sums Transfer Products.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Rules.
Variables (R : realFieldType) (X : eqType).
Implicit Types (t d : R) (near : seq X -> seq X -> Prop).

Theorem convert near (T : eqType) t d t' d' (M : mechanism X R T) :
  has_laws M -> t <= t' -> d <= d' -> private near t d M -> private near t' d' M.
Proof.
move=> lM tt' dd' pM D E near_DE.
by apply: (@close_weaken R T t d) => //; [exact: law_ge0 | exact: pM].
Qed.

Theorem post_process near (T U : eqType) t d (M : mechanism X R T) (K : T -> U -> R)
    (N : mechanism X R U) :
  0 <= t -> has_laws M -> (forall x, law (K x)) -> (forall D, image (M D) K (N D)) ->
  private near t d M -> private near t d N.
Proof.
by move=> t0 lM lK MN pM D E near_DE; apply: (close_image t0 _ _ lK (MN D) (MN E)) => //; exact: pM.
Qed.

Theorem compose near (T U : eqType) t d t' d' (M : mechanism X R T) (K : T -> mechanism X R U) :
  0 <= t -> 0 <= t' -> 0 <= d' -> has_laws M -> (forall x, has_laws (K x)) ->
  private near t d M -> (forall x, private near t' d' (K x)) ->
  private near (t * t') (d + d') (fun D => joint (M D) (fun x => K x D)).
Proof.
move=> t0 t0' d0 lM lK pM pK D E near_DE.
apply: close_joint => // [x|x||x]; [exact: lK | exact: lK | exact: pM | exact: pK].
Qed.

Theorem group_privacy near (T : eqType) t d (M : mechanism X R T) k :
  0 <= t -> private near t d M -> private (steps near k) (t ^+ k) (group_delta t d k) M.
Proof.
move=> t0 pM; elim: k => [|k IH] D E /=.
  by move=> -> s _; rewrite expr0 mul1r /group_delta big_ord0 mulr0 addr0.
case=> F [near_DF steps_FE].
have := close_steps t0 (pM _ _ near_DF) (IH _ _ steps_FE); rewrite -exprS.
congr (close _ _ _ _); rewrite /group_delta big_ord_recl expr0 mulrDr mulr1 mulrCA; congr (_ + _).
by rewrite mulr_sumr; congr (_ * _); apply: eq_bigr => i _; rewrite -exprS.
Qed.

Theorem change_adjacency (T : eqType) t d (M : mechanism X R T) :
  0 <= t -> private (@add_remove X) t d M -> private (@replace X) (t * t) (d + t * d) M.
Proof.
move=> t0 pM D E [before [x [y [after [-> ->]]]]].
apply: (@close_steps R T t d _ (M (before ++ after))) => //; apply: pM.
  by left; exists before, x, after.
by right; exists before, y, after.
Qed.

(** Blocks of a dataset, each with a mechanism of its own; [labels] are public. *)
Section Blocks.
Variables (L : eqType) (labels : seq L) (T : eqType) (M : L -> mechanism X R T).
Notation by_value := (by_value labels M).
Notation by_index := (by_index labels M).

Lemma each_law (ls : seq L) (blocks : L -> seq X) : (forall l, has_laws (M l)) ->
  each (@law R T) [seq M l (blocks l) | l <- ls].
Proof. by move=> lM; elim: ls => //= l ls IH; split=> //; exact: lM. Qed.

(** Two lists of blocks that are the same but for one, which are neighbors. *)
Lemma close_blocks near t d (blocks blocks' : L -> seq X) (own : L) :
  1 <= t -> 0 <= d -> uniq labels -> (forall l, has_laws (M l)) -> (forall l, private near t d (M l)) ->
  (forall l, l != own -> blocks l = blocks' l) -> near (blocks own) (blocks' own) ->
  close t d (product [seq M l (blocks l) | l <- labels]) (product [seq M l (blocks' l) | l <- labels]).
Proof.
move=> t1 d0 ul lM pM same near_own.
have same_in ls : own \notin ls -> [seq M l (blocks l) | l <- ls] = [seq M l (blocks' l) | l <- ls].
  by move=> notin; apply/eq_in_map => l ls_l; rewrite same //; apply: contraNneq notin => <-.
case in_l: (own \in labels); last first.
  rewrite same_in ?in_l //; apply: (@close_weaken R _ t 0) => //.
    by apply: law_ge0; apply: product_law; exact: each_law.
  by apply: close_refl => //; apply: law_ge0; apply: product_law; exact: each_law.
case/splitPr: in_l ul => l1 l2; rewrite cat_uniq /= => /and3P[_ notin1 /andP[notin2 _]].
rewrite negb_or in notin1; case/andP: notin1 => notin1 _.
rewrite !map_cat !map_cons (same_in l1) // (same_in l2) //.
by apply: close_product => //; try exact: each_law; try exact: lM; exact: pM.
Qed.

(** Of neighbors one block differs, by one record. *)
Lemma one_block (f : X -> L) D E : add_remove D E -> exists x, (forall l, l != f x ->
    [seq x <- D | f x == l] = [seq x <- E | f x == l]) /\
    add_remove [seq y <- D | f y == f x] [seq y <- E | f y == f x].
Proof.
move=> near_DE.
have half D' E' : removed D' E' -> exists x, (forall l, l != f x ->
    [seq x <- D' | f x == l] = [seq x <- E' | f x == l]) /\
    removed [seq y <- D' | f y == f x] [seq y <- E' | f y == f x].
  case=> before [x [after [-> ->]]]; exists x; split=> [l|].
    by rewrite eq_sym => /negbTE xl; rewrite !filter_cat /= xl.
  rewrite !filter_cat /= eqxx.
  by exists [seq y <- before | f y == f x], x, [seq y <- after | f y == f x].
case: near_DE => /half[x [same near_x]]; exists x; split=> //; try by [left | right].
by move=> l lx; rewrite same.
Qed.

Theorem parallel_by_value t d (f : X -> L) :
  1 <= t -> 0 <= d -> uniq labels -> (forall l, has_laws (M l)) ->
  (forall l, private (@add_remove X) t d (M l)) -> private (@add_remove X) t d (by_value f).
Proof.
move=> t1 d0 ul lM pM D E near_DE.
have [x [same near_x]] := one_block f near_DE.
exact: (@close_blocks _ t d (fun l => [seq x <- D | f x == l]) (fun l => [seq x <- E | f x == l]) (f x)).
Qed.

Lemma block_split (g : nat -> L) l (before : seq X) z after : block_at g l (before ++ z :: after) =
    block_at g l before ++ (if g (size before) == l then [:: z] else [::]) ++
    [seq z.2 | z <- zip (iota (size before).+1 (size after)) after & g z.1 == l].
Proof.
rewrite /block_at size_cat iotaD zip_cat ?size_iota // filter_cat map_cat add0n /=.
by case: (g (size before) == l).
Qed.

Lemma one_place (g : nat -> L) (D E : seq X) : replace D E -> exists own, (forall l, l != own -> block_at g l D = block_at g l E) /\
  replace (block_at g own D) (block_at g own E).
Proof.
move=> [before [x [y [after [-> ->]]]]]; exists (g (size before)); split.
  by move=> l; rewrite eq_sym => /negbTE ne; rewrite !block_split ne.
rewrite !block_split eqxx; exists (block_at g (g (size before)) before), x, y.
by eexists; split; reflexivity.
Qed.

Theorem parallel_by_index t d (g : nat -> L) :
  1 <= t -> 0 <= d -> uniq labels -> (forall l, has_laws (M l)) ->
  (forall l, private (@replace X) t d (M l)) -> private (@replace X) t d (by_index g).
Proof.
move=> t1 d0 ul lM pM D E near_DE; have [own [same near_own]] := one_place g near_DE.
exact: (@close_blocks _ t d (fun l => block_at g l D) (fun l => block_at g l E) own).
Qed.

End Blocks.

End Rules.
