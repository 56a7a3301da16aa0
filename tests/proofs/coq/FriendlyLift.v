(** The lift: a filter whose chances move little, and a mechanism that is private for friendly neighbors. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum order.
From mathcomp Require Import ring.
From mathcomp.analysis Require Import reals sequences exp.
Require Import Definitions Mechanisms Sums Transfer Products Filters.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Sides.
Variables (R : realFieldType) (X : eqType).
Notation sided := (sided R X).

Definition as_move (m : sided) : move R X := (m.1, (odflt 0 m.2.1, odflt 0 m.2.2)).

Lemma distance_sided (moves : seq sided) :
  distance [seq as_move m | m <- moves] = \sum_(m <- moves) `|odflt 0 m.2.1 - odflt 0 m.2.2|.
Proof. by rewrite /distance big_map. Qed.

Lemma filtered_coins (T : eqType) (moves : seq sided) (M : mechanism X R T) u :
  filtered (coins_of fst moves) M u = filtered [seq left_coin (as_move m) | m <- moves] M u /\
  filtered (coins_of snd moves) M u = filtered [seq right_coin (as_move m) | m <- moves] M u.
Proof.
elim: moves M => [|[x [p q]] rest IH] M //=.
have [IH1l IH1r] := IH (fun kept => M (x :: kept)); have [IH0l IH0r] := IH M.
by split; [case: p => [p|] | case: q => [q|]] => /=;
  rewrite ?IH1l ?IH0l ?IH1r ?IH0r ?subr0 ?mul0r ?mul1r ?add0r.
Qed.

Lemma subseq_filter_sub (A : eqType) (a b : pred A) (s : seq A) :
  {in s, forall x, a x -> b x} -> subseq (filter a s) (filter b s).
Proof.
elim: s => //= x s IH ab.
have {}IH : subseq (filter a s) (filter b s).
  by apply: IH => y ys; apply: ab; rewrite inE ys orbT.
case ax: (a x).
  by rewrite (ab x (mem_head _ _) ax) /= eqxx.
by case: (b x) => //; apply: subseq_trans IH (subseq_cons _ _).
Qed.

(** Where chances only fall, or only rise, what may be kept on the way may be kept on one side. *)
Lemma on_the_way_of_side (side : move R X -> R) (friendly : seq X -> Prop) (moves : seq (move R X)) :
  {in moves, forall m, 0 < Num.max m.2.1 m.2.2 -> 0 < side m} ->
  (forall kept, subseq kept [seq m.1 | m <- moves & 0 < side m] -> friendly kept) ->
  friendly_on_the_way friendly moves.
Proof.
move=> to_side ok before m after kept e sub; apply: ok; apply: subseq_trans sub _.
have inm n : n \in before \/ n = m \/ n \in after -> n \in moves.
  by rewrite e mem_cat inE; case=> [->|[->|->]]; rewrite ?eqxx ?orbT.
rewrite e filter_cat map_cat; apply: cat_subseq.
  apply: map_subseq; apply: subseq_filter_sub => n nb n_pos; apply: to_side; first by apply: inm; left.
  by rewrite lt_maxr n_pos orbT.
have rest : subseq [seq n.1 | n <- after & 0 < n.2.1] [seq n.1 | n <- after & 0 < side n].
  apply: map_subseq; apply: subseq_filter_sub => n na n_pos; apply: to_side.
    by apply: inm; right; right.
  by rewrite lt_maxr n_pos.
rewrite /=; case: ifP => [m_pos|_].
  by rewrite (to_side m (inm m (or_intror (or_introl erefl))) m_pos) /= eqxx.
by case: ifP => // _; apply: subseq_trans rest (subseq_cons _ _).
Qed.

Lemma support_coins (side : option R * option R -> option R) (pick : R * R -> R) (moves : seq sided) :
  (forall p q, pick (odflt 0 p, odflt 0 q) = odflt 0 (side (p, q))) ->
  [seq m.1 | m <- [seq as_move m | m <- moves] & 0 < pick m.2] =
  [seq c.1 | c <- coins_of side moves & 0 < c.2].
Proof.
move=> same; rewrite /coins_of; elim: moves => [|[x [p q]] moves IH] //=; rewrite same.
by case: (side (p, q)) => [r|] /=; rewrite ?ltxx //; case: ifP => _ /=; rewrite IH.
Qed.

Lemma chance_of_coins (side : option R * option R -> option R) (moves : seq sided) :
  (forall c, c \in coins_of side moves -> 0 <= c.2 <= 1) ->
  forall m, m \in moves -> 0 <= odflt 0 (side m.2) <= 1.
Proof.
move=> ok m in_m; case e: (side m.2) => [r|] /=; last by rewrite lexx ler01.
by apply: (ok (m.1, r)); rewrite mem_pmap; apply/mapP; exists m => //; rewrite e.
Qed.

(** First all chances fall, then all rise: every set on the way may be kept on one of the two sides. *)
Lemma close_filtered (T : eqType) (t d : R) (moves : seq (move R X)) (M : mechanism X R T)
    (friendly : seq X -> Prop) :
  1 < t -> 0 <= d -> chances moves -> hereditary friendly ->
  (forall kept, subseq kept [seq m.1 | m <- moves & 0 < m.2.1] -> friendly kept) ->
  (forall kept, subseq kept [seq m.1 | m <- moves & 0 < m.2.2] -> friendly kept) ->
  private (friendly_near friendly) t d M -> has_laws M ->
  close (growth t moves) (d * ((growth t moves - 1) / (t - 1)))
    (filtered [seq left_coin m | m <- moves] M) (filtered [seq right_coin m | m <- moves] M).
Proof.
move=> t1 d0 ok her left_ok right_ok pM lM.
have a_pos : 0 < t - 1 by rewrite subr_gt0.
pose falls := [seq (m.1, (m.2.1, Num.min m.2.1 m.2.2)) : move R X | m <- moves].
pose rises := [seq (m.1, (Num.min m.2.1 m.2.2, m.2.2)) : move R X | m <- moves].
have ok_falls : chances falls.
  move=> _ /mapP[m in_m ->] /=; have [/andP[p0 p1] /andP[q0 q1]] := ok m in_m.
  by rewrite p0 p1 le_minr p0 q0 le_minl p1.
have ok_rises : chances rises.
  move=> _ /mapP[m in_m ->] /=; have [/andP[p0 p1] /andP[q0 q1]] := ok m in_m.
  by rewrite q0 q1 le_minr p0 q0 le_minl p1.
have step1 : close (growth t falls) (d * ((growth t falls - 1) / (t - 1)))
    (filtered [seq left_coin m | m <- falls] M) (filtered [seq right_coin m | m <- falls] M).
  apply: (close_hybrids (friendly := friendly)) => //.
  apply: (@on_the_way_of_side (fun m => m.2.1)).
    by move=> _ /mapP[m _ ->] /=; rewrite lt_maxr lt_minr; case/orP => // /andP[].
  move=> kept; rewrite filter_map -map_comp; exact: left_ok.
have step2 : close (growth t rises) (d * ((growth t rises - 1) / (t - 1)))
    (filtered [seq left_coin m | m <- rises] M) (filtered [seq right_coin m | m <- rises] M).
  apply: (close_hybrids (friendly := friendly)) => //.
  apply: (@on_the_way_of_side (fun m => m.2.2)).
    by move=> _ /mapP[m _ ->] /=; rewrite lt_maxr lt_minr; case/orP => // /andP[].
  move=> kept; rewrite filter_map -map_comp; exact: right_ok.
rewrite -!map_comp in step1 step2.
have same : [seq (@left_coin R X \o (fun m => (m.1, (Num.min m.2.1 m.2.2, m.2.2)))) m | m <- moves] =
    [seq (@right_coin R X \o (fun m => (m.1, (m.2.1, Num.min m.2.1 m.2.2)))) m | m <- moves] by [].
rewrite same in step2.
have grow : growth t moves = growth t falls * growth t rises.
  rewrite /growth !big_map -big_split /=; apply: eq_bigr => m _.
  by case: (leP m.2.1 m.2.2) => _; rewrite subrr normr0 mulr0 addr0 ?mul1r ?mulr1.
have g0 : 0 <= growth t falls by apply: le_trans ler01 (growth_ge1 _ (ltW t1)).
have := close_steps g0 step1 step2; rewrite -grow.
congr (close _ _ _ _); rewrite grow.
have ne : t - 1 != 0 by rewrite gt_eqF.
by field.
Qed.

End Sides.

Section Lift.
Variables (R : realType) (X : eqType).

Lemma growth_le_exp (t : R) (moves : seq (move R X)) : 1 <= t ->
  growth t moves <= expR ((t - 1) * distance moves).
Proof.
move=> t1; have a0 : 0 <= t - 1 by rewrite subr_ge0.
rewrite /growth /distance; elim: moves => [|m moves IH]; first by rewrite !big_nil mulr0 expR0.
rewrite !big_cons mulrDr expRD; apply: ler_pmul => //.
- by apply: addr_ge0; [exact: ler01 | exact: mulr_ge0].
- by apply: le_trans ler01 (growth_ge1 _ t1).
- by apply: expR_ge1Dx; exact: mulr_ge0.
Qed.

(** [e] is the inner epsilon. *)
Theorem friendly_lift near friendly (T : eqType) (e d moved : R) (coins : seq X -> seq (X * R))
    (M : mechanism X R T) :
  0 < e -> 0 <= d -> has_laws M -> hereditary friendly -> stable near friendly moved coins ->
  private (friendly_near friendly) (expR e) d M ->
  private near (expR ((expR e - 1) * moved))
    (d * ((expR ((expR e - 1) * moved) - 1) / (expR e - 1))) (fun D => filtered (coins D) M).
Proof.
move=> e0 d0 lM her [ok way] pM D E near_DE.
have t1 : 1 < expR e by rewrite expR_gt1.
have a_pos : 0 < expR e - 1 by rewrite subr_gt0.
have [moves [cD [cE moved_le]]] := way D E near_DE.
have [okD frD] := ok D; have [okE frE] := ok E.
rewrite -distance_sided in moved_le; set ms := [seq as_move m | m <- moves] in moved_le.
have le_g : growth (expR e) ms <= expR ((expR e - 1) * moved).
  apply: le_trans (growth_le_exp _ (ltW t1)) _.
  by rewrite ler_expR; apply: ler_wpmul2l moved_le; exact: ltW.
apply: (@close_weaken R T (growth (expR e) ms) (d * ((growth (expR e) ms - 1) / (expR e - 1)))) => //.
- by apply: law_ge0; apply: filtered_law.
- by apply: ler_wpmul2l => //; rewrite ler_pmul2r ?invr_gt0 // ler_add2r.
move=> s us.
have left_eq : mass (filtered (coins D) M) s = mass (filtered [seq left_coin m | m <- ms] M) s.
  by apply: eq_bigr => u _; rewrite cD -map_comp; exact: (filtered_coins moves M u).1.
have right_eq : mass (filtered (coins E) M) s = mass (filtered [seq right_coin m | m <- ms] M) s.
  by apply: eq_bigr => u _; rewrite cE -map_comp; exact: (filtered_coins moves M u).2.
rewrite left_eq right_eq; move: s us {left_eq right_eq}.
apply: (close_filtered (friendly := friendly)) => //.
- move=> _ /mapP[m in_m ->] /=; split.
    by apply: (@chance_of_coins R X fst moves _ m in_m); rewrite -cD.
  by apply: (@chance_of_coins R X snd moves _ m in_m); rewrite -cE.
- by rewrite (@support_coins R X fst fst) // -cD.
- by rewrite (@support_coins R X snd snd) // -cE.
Qed.

End Lift.
