(** Blocks of which each may be asked after seeing what the earlier ones released. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum order.
Require Import Definitions Mechanisms Sums Transfer Products Rules Labels Gaussian.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Chained.
Variables (R : realFieldType) (X L T : eqType) (M : L -> seq T -> mechanism X R T).
Notation chain := (chain M).
Notation chained_by_labels := (chained_by_labels M).
Implicit Types (t d : R) (blocks : L -> seq X).

Lemma mass_chain l labels earlier blocks s : mass (chain (l :: labels) earlier blocks) s =
  mass (joint (M l earlier (blocks l)) (fun x => chain labels (rcons earlier x) blocks))
       (pmap (@uncons T) s).
Proof. by apply: mass_listed. Qed.

Hypothesis lM : forall l earlier, has_laws (M l earlier).

Lemma chain_law labels earlier blocks : law (chain labels earlier blocks).
Proof.
elim: labels earlier => [|l labels IH] earlier; first exact: one_law.
split=> [[|x xs] //=|s us].
  by apply: mulr_ge0; [exact: (law_ge0 (lM l earlier _)) | exact: (law_ge0 (IH _))].
by rewrite mass_chain; apply: mass_le1 (uncons_uniq us); apply: joint_law; [exact: lM | move=> x; exact: IH].
Qed.

Lemma chain_same labels earlier blocks blocks' : {in labels, blocks =1 blocks'} ->
  chain labels earlier blocks =1 chain labels earlier blocks'.
Proof.
elim: labels earlier => [|l labels IH] earlier same [|x xs] //=.
rewrite same ?mem_head // IH // => k in_k; apply: same; by rewrite inE in_k orbT.
Qed.

(** The blocks of neighbors are the same but for one, whose blocks are neighbors. *)
Lemma close_chain (near : seq X -> seq X -> Prop) t d labels earlier blocks blocks' own :
  1 <= t -> 0 <= d -> uniq labels -> (forall l earlier, private near t d (M l earlier)) ->
  (forall l, l != own -> blocks l = blocks' l) -> near (blocks own) (blocks' own) ->
  close t d (chain labels earlier blocks) (chain labels earlier blocks').
Proof.
move=> t1 d0 ul pM same near_own; have t0 : 0 <= t by apply: le_trans t1; exact: ler01.
have refl u (P : seq T -> R) : 1 <= u -> law P -> close u 0 P P.
  by move=> u1 lP; apply: close_refl => //; exact: law_ge0.
elim: labels earlier ul => [|l labels IH] earlier /=.
  move=> _; apply: (@close_weaken R _ t 0) => //; first exact: (law_ge0 (chain_law [::] earlier blocks')).
  exact: refl (chain_law [::] earlier blocks).
case/andP=> notin ul s us; rewrite !mass_chain; have cu := uncons_uniq us.
case: (eqVneq l own) => [e|ne].
  have := @close_joint R T _ t d 1 0 (M l earlier (blocks l)) (M l earlier (blocks' l))
    (fun x => chain labels (rcons earlier x) blocks) (fun x => chain labels (rcons earlier x) blocks').
  rewrite mulr1 addr0; apply=> //; try by [exact: ler01 | exact: lM | move=> x; exact: chain_law].
    by rewrite e; exact: pM.
  move=> x w uw; have -> : mass (chain labels (rcons earlier x) blocks) w =
      mass (chain labels (rcons earlier x) blocks') w.
    apply: eq_bigr => y _; apply: chain_same => k in_k; apply: same.
    by apply: contraNneq notin => k_own; rewrite e -k_own.
  exact: refl (chain_law _ _ _) w uw.
have := @close_joint R T _ 1 0 t d (M l earlier (blocks l)) (M l earlier (blocks' l))
  (fun x => chain labels (rcons earlier x) blocks) (fun x => chain labels (rcons earlier x) blocks').
rewrite mul1r add0r; apply=> //; try by [exact: ler01 | exact: lM | move=> x; exact: chain_law].
  by rewrite same //; apply: close_refl => //; exact: (law_ge0 (lM _ _ _)).
by move=> x; exact: IH.
Qed.

Theorem chained_by_value t d (labels : seq L) (f : X -> L) :
  1 <= t -> 0 <= d -> uniq labels -> (forall l earlier, private (@add_remove X) t d (M l earlier)) ->
  private (@add_remove X) t d (fun D => chain labels [::] (fun l => [seq x <- D | f x == l])).
Proof.
move=> t1 d0 ul pM D E near_DE.
have [x [same near_x]] := one_block f near_DE.
exact: (@close_chain (@add_remove X) t d labels [::] (fun l => [seq x <- D | f x == l])
  (fun l => [seq x <- E | f x == l]) (f x)).
Qed.

Theorem chained_by_index t d (labels : seq L) (g : nat -> L) :
  1 <= t -> 0 <= d -> uniq labels -> (forall l earlier, private (@replace X) t d (M l earlier)) ->
  private (@replace X) t d (fun D => chain labels [::] (fun l => block_at g l D)).
Proof.
move=> t1 d0 ul pM D E near_DE; have [own [same near_own]] := one_place g near_DE.
exact: (@close_chain (@replace X) t d labels [::] (fun l => block_at g l D) (fun l => block_at g l E) own).
Qed.

Theorem chained_by_labels_add_remove t d (labels : seq L) A N :
  1 <= t -> 0 <= d -> uniq labels -> (forall l earlier, private (@add_remove X) t d (M l earlier)) ->
  law A -> total A 1 -> chained_by_labels labels A N -> private (@add_remove X) t d N.
Proof.
move=> t1 d0 ul pM lA A1 NA.
apply: (@labels_add_remove R X L T (chain labels [::]) t d A N) => // [blocks|blocks blocks' own].
  exact: chain_law.
exact: close_chain.
Qed.

Theorem chained_by_labels_replace t d (labels : seq L) A N :
  1 <= t -> 0 <= d -> uniq labels -> (forall l earlier, private (@replace X) t d (M l earlier)) ->
  law A -> chained_by_labels labels A N -> private (@replace X) t d N.
Proof.
move=> t1 d0 ul pM lA NA.
apply: (@labels_replace R X L T (chain labels [::]) t d A N) => // [blocks|blocks blocks' own].
  exact: chain_law.
exact: close_chain.
Qed.

End Chained.
