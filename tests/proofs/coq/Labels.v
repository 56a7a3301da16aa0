(** Blocks by labels that are drawn for each record, independently of all records and of each other. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum order.
From mathcomp Require Import ring.
Require Import Definitions Mechanisms Sums Transfer Products Rules.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Labels.
Variables (R : realFieldType) (X L T : eqType).
Implicit Types (t d : R) (A : L -> R) (l : L) (D E : seq X).

Lemma drawn_law A n : law A -> law (drawn A n).
Proof. by move=> lA; apply: product_law; elim: n => //= n IH; split. Qed.

Lemma drawn_size A n ls : drawn A n ls != 0 -> size ls = n.
Proof.
rewrite /drawn; elim: n ls => [|n IH] [|l ls] //=; rewrite ?eqxx // mulf_eq0 negb_or.
by case/andP=> _ /IH->.
Qed.

Lemma total_through (Y Z : eqType) (g : Y -> Z) (f : Z -> R) (h : Y -> R) m : injective g ->
  (forall z, f z != 0 -> exists y, z = g y) -> (forall y, f (g y) = h y) -> total h m -> total f m.
Proof.
move=> inj onto same [le_m least]; split=> [s us|u le_u].
  have [ls [uls [_ ->]]] : exists ls, uniq ls /\ {subset map g ls <= s} /\ mass f s = mass h ls.
    elim: s us => [_|z s IH /= /andP[zs /IH[ls [uls [sub e]]]]].
      by exists [::]; rewrite /mass !big_nil.
    rewrite /mass big_cons -/(mass f s) e; case: (eqVneq (f z) 0) => [->|/onto[y zy]].
      by exists ls; rewrite add0r; split=> //; split=> // w /sub; rewrite inE orbC => ->.
    exists (y :: ls); split; last split.
    - rewrite /= uls andbT; apply: contra zs => y_ls; rewrite zy; apply: sub; exact: map_f.
    - by move=> w; rewrite /= !inE -zy => /orP[->|/sub->] //; rewrite orbT.
    - by rewrite /mass big_cons zy same.
  exact: le_m.
apply: least => s us; apply: le_trans (le_u (map g s) _); last by rewrite map_inj_uniq.
by rewrite /mass big_map; apply: ler_sum => y _; rewrite same.
Qed.

Lemma total_times (Y : eqType) (f : Y -> R) c : 0 <= c -> total f 1 -> total (fun y => f y * c) c.
Proof.
move=> c0 [le1 least]; split=> [s us|u le_u].
  by rewrite /mass -mulr_suml ler_pimull //; exact: le1.
move: c0; rewrite le_eqVlt => /orP[/eqP c0|c_pos].
  by have := le_u [::] isT; rewrite /mass big_nil -c0.
rewrite -[c]mul1r -ler_pdivl_mulr //; apply: least => s us.
by rewrite ler_pdivl_mulr // /mass mulr_suml; exact: le_u.
Qed.

(** Without the label at place [i]. *)
Definition dropped (i : nat) (ls : seq L) : seq L := take i ls ++ drop i.+1 ls.

Definition inserted (i : nat) (y : seq L) (l : L) : seq L := take i y ++ l :: drop i y.

Lemma drawn_inserted A n i y l : (i <= n)%N -> size y = n ->
  drawn A n.+1 (inserted i y l) = A l * drawn A n y.
Proof.
rewrite /drawn /inserted; elim: i n y => [|i IH] n y; first by rewrite take0 drop0.
case: n => // n; case: y => // k y /= ile [sy].
by have /= -> := IH n y ile sy; rewrite mulrCA.
Qed.

Lemma dropped_inserted i y l : (i <= size y)%N -> dropped i (inserted i y l) = y.
Proof.
move=> ile; rewrite /dropped /inserted take_size_cat ?size_takel //.
rewrite -cat_rcons drop_size_cat ?size_rcons ?size_takel //; exact: cat_take_drop.
Qed.

(** A label more that nobody looks at. *)
Lemma image_dropped A n i : total A 1 -> (forall l, 0 <= A l) -> (i <= n)%N ->
  image (drawn A n.+1) (fun z y => (dropped i z == y)%:R) (drawn A n).
Proof.
move=> A1 A0 ile y; case: (eqVneq (size y) n) => [sy|sy]; last first.
  have zero z : drawn A n.+1 z * (dropped i z == y)%:R = 0.
    case: (eqVneq (drawn A n.+1 z) 0) => [->|/drawn_size sz]; first by rewrite mul0r.
    case: eqP => [e|_]; last by rewrite mulr0.
    move: sy; rewrite -e /dropped size_cat size_takel ?sz; last exact: leqW.
    by rewrite size_drop sz subSS subnKC // eqxx.
  have -> : drawn A n y = 0.
    by apply/eqP; case: (eqVneq (drawn A n y) 0) => // /drawn_size e; rewrite e eqxx in sy.
  split=> [s _|u /(_ [::] isT)]; last by rewrite /mass big_nil.
  by rewrite /mass big1.
have c0 : 0 <= drawn A n y.
  rewrite /drawn; move: (n) (y) => m; elim: m => [|m IH] [|l w] //=; first exact: ler01.
  by apply: mulr_ge0.
apply: (@total_through _ _ (inserted i y) _ _ _ _ _ _ (total_times c0 A1)).
- by move=> l l'; rewrite /inserted => /eqP; rewrite eqseq_cat // eqxx /= eqseq_cons => /andP[/eqP->].
- move=> z; rewrite mulf_eq0 negb_or => /andP[/drawn_size sz].
  rewrite pnatr_eq0 eqb0 negbK => /eqP <-.
  have iz : (i < size z)%N by rewrite sz.
  case: z sz iz => [//|l0 z] sz iz; exists (nth l0 (l0 :: z) i).
  rewrite /inserted /dropped take_size_cat ?size_takel //; last exact: ltnW.
  rewrite drop_size_cat ?size_takel //; last exact: ltnW.
  by rewrite -drop_nth // cat_take_drop.
- by move=> l; rewrite drawn_inserted // dropped_inserted ?sy // eqxx mulr1.
Qed.

Lemma labelled_cat l ls ls' D E : size ls = size D ->
  labelled l (ls ++ ls') (D ++ E) = labelled l ls D ++ labelled l ls' E.
Proof. by move=> e; rewrite /labelled zip_cat // filter_cat map_cat. Qed.

Lemma split_at A n i ls : (i < n)%N -> 0 < drawn A n ls ->
  exists before l after, ls = before ++ l :: after /\ size before = i /\ dropped i ls = before ++ after.
Proof.
move=> lt_i pos; have sz : size ls = n by apply: (@drawn_size A); rewrite gt_eqF.
case: ls sz pos => [e|l0 ls sz _]; first by rewrite -e in lt_i.
have lt_s : (i < size (l0 :: ls))%N by rewrite sz.
exists (take i (l0 :: ls)), (nth l0 (l0 :: ls) i), (drop i.+1 (l0 :: ls)).
by rewrite -drop_nth // cat_take_drop size_takel // ltnW.
Qed.

(** What the blocks release, whatever they are: [W]. *)
Section AnyBlocks.
Variables (W : (L -> seq X) -> seq T -> R) (t d : R) (A : L -> R) (N : mechanism X R (seq_eqType T)).
Hypotheses (t1 : 1 <= t) (d0 : 0 <= d) (lA : law A) (lW : forall blocks, law (W blocks)).
Hypothesis drawn_blocks : forall D,
  image (drawn A (size D)) (fun ls => W (fun l => labelled l ls D)) (N D).

(** The claim of the blocks, of which one may differ. *)
Definition one_may_differ (near : seq X -> seq X -> Prop) : Prop :=
  forall blocks blocks' own, (forall l, l != own -> blocks l = blocks' l) ->
    near (blocks own) (blocks' own) -> close t d (W blocks) (W blocks').

Lemma labels_add_remove : total A 1 -> one_may_differ (@add_remove X) -> private (@add_remove X) t d N.
Proof.
move=> A1 pW.
have t0 : 0 <= t by apply: le_trans t1; exact: ler01.
suff both D E : removed D E -> close t d (N D) (N E) /\ close t d (N E) (N D).
  by move=> D E [/both[]|/both[]].
move=> [b [x [a [eD eE]]]]; set i := size b; set n := (size b + size a)%N.
have sD : size D = n.+1 by rewrite eD size_cat /= addnS.
have sE : size E = n by rewrite eE size_cat.
have ile : (i <= n)%N by rewrite leq_addr.
have ND := drawn_blocks D; have NE := drawn_blocks E; rewrite sD in ND; rewrite sE in NE.
have lC := drawn_law n.+1 lA.
have {}NE := image_of_coupled lC (image_dropped A1 (law_ge0 lA) ile) (fun ls => lW (fun l => labelled l ls E)) NE.
have blocks z : 0 < drawn A n.+1 z -> exists l, (forall k, k != l -> labelled k z D = labelled k (dropped i z) E) /\
    removed (labelled l z D) (labelled l (dropped i z) E).
  case/(@split_at A n.+1 i z) => [|zb]; first by rewrite ltnS.
  move=> [l [za [-> [sb ->]]]]; exists l.
  have cut k : labelled k (zb ++ l :: za) D = labelled k zb b ++ (if l == k then [:: x] else [::]) ++ labelled k za a.
    by rewrite eD labelled_cat // /labelled /=; case: (l == k).
  split=> [k|]; rewrite cut eE labelled_cat //; first by rewrite eq_sym => /negbTE->.
  by rewrite eqxx; exists (labelled l zb b), x, (labelled l za a).
split; [apply: (close_mixtures t0 d0 lC _ ND NE) | apply: (close_mixtures t0 d0 lC _ NE ND)].
- by move=> z; exact: lW.
- move=> z /blocks[l [same near]].
  by apply: (pW _ _ l) => //; left.
- by move=> z; exact: lW.
move=> z /blocks[l [same near]]; apply: (pW _ _ l); last by right.
by move=> k kl; rewrite same.
Qed.

Lemma labels_replace : one_may_differ (@replace X) -> private (@replace X) t d N.
Proof.
move=> pW D E [b [x [y [a [eD eE]]]]].
have t0 : 0 <= t by apply: le_trans t1; exact: ler01.
set n := (size b + size a).+1.
have sD : size D = n by rewrite eD size_cat /= addnS.
have sE : size E = n by rewrite eE size_cat /= addnS.
have ND := drawn_blocks D; have NE := drawn_blocks E; rewrite sD in ND; rewrite sE in NE.
apply: (close_mixtures t0 d0 (drawn_law n lA) _ ND NE) => z; first exact: lW.
case/(@split_at A n (size b) z); first by rewrite ltnS leq_addr.
move=> zb [l [za [-> [sb _]]]].
have cut k w : labelled k (zb ++ l :: za) (b ++ w :: a) =
    labelled k zb b ++ (if l == k then [:: w] else [::]) ++ labelled k za a.
  by rewrite labelled_cat // /labelled /=; case: (l == k).
apply: (pW _ _ l) => [k|]; rewrite eD eE !cut.
  by rewrite eq_sym => /negbTE->.
by rewrite eqxx; exists (labelled l zb b), x, y, (labelled l za a).
Qed.

End AnyBlocks.

Variables (labels : seq L) (M : L -> mechanism X R T).
Notation with_labels := (with_labels labels M).
Notation by_labels := (by_labels labels M).

Lemma with_labels_law D ls : (forall l, has_laws (M l)) -> law (with_labels D ls).
Proof. by move=> lM; apply: product_law; exact: each_law. Qed.

Theorem parallel_by_labels_add_remove t d A N : 1 <= t -> 0 <= d -> law A -> total A 1 ->
  uniq labels -> (forall l, has_laws (M l)) -> (forall l, private (@add_remove X) t d (M l)) ->
  by_labels A N -> private (@add_remove X) t d N.
Proof.
move=> t1 d0 lA A1 ul lM pM NA.
apply: (@labels_add_remove (fun blocks => product [seq M l (blocks l) | l <- labels]) t d A N) => //.
  by move=> blocks; apply: product_law; exact: each_law.
by move=> blocks blocks' own; exact: close_blocks.
Qed.

Theorem parallel_by_labels_replace t d A N : 1 <= t -> 0 <= d -> law A ->
  uniq labels -> (forall l, has_laws (M l)) -> (forall l, private (@replace X) t d (M l)) ->
  by_labels A N -> private (@replace X) t d N.
Proof.
move=> t1 d0 lA ul lM pM NA.
apply: (@labels_replace (fun blocks => product [seq M l (blocks l) | l <- labels]) t d A N) => //.
  by move=> blocks; apply: product_law; exact: each_law.
by move=> blocks blocks' own; exact: close_blocks.
Qed.

End Labels.
