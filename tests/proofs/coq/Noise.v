(** Laws by their weights: randomized response, vectors of discrete Laplace noise, choices by weight. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum ssrint order.
From mathcomp Require Import ring zify.
Require Import Definitions Mechanisms Sums Transfer Products AboveThreshold.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Noise.
Variable R : realFieldType.

(** What is pointwise at most a factor more likely. *)
Lemma close_pointwise (T : eqType) (t : R) (P Q : T -> R) :
  (forall x, P x <= t * Q x) -> close t 0 P Q.
Proof. by move=> PQ s _; rewrite addr0 /mass mulr_sumr; apply: ler_sum => x _; exact: PQ. Qed.

Variable X : eqType.
Implicit Types (near : seq X -> seq X -> Prop) (p : int -> R).

Lemma by_weight_law (T : eqType) (w P : T -> R) : by_weight w P -> law P.
Proof.
case=> w0 [W [W_pos [tot PW]]]; split=> [x|s us]; first by rewrite PW; apply: divr_ge0 => //; exact: ltW.
rewrite /mass; under eq_bigr do rewrite PW.
by rewrite -mulr_suml ler_pdivr_mulr // mul1r; exact: mass_total tot us.
Qed.

Lemma total_scaled (T : eqType) (w v : T -> R) W V a : 0 <= a ->
  (forall x, w x <= a * v x) -> total w W -> total v V -> W <= a * V.
Proof.
move=> a0 wv tw tv; apply: tw.2 => s us.
apply: (@le_trans _ _ (a * mass v s)); last by apply: ler_wpmul2l => //; exact: mass_total tv us.
by rewrite /mass mulr_sumr; apply: ler_sum => x _; exact: wv.
Qed.

(** [w] moves by a factor between 1 / [up] and [down]: up where it rises, down where it falls. *)
Theorem exponential_mechanism near (T : eqType) (up down : R) (w : seq X -> T -> R)
    (M : mechanism X R T) :
  0 < up -> 0 < down -> (forall D, by_weight (w D) (M D)) ->
  (forall D E, near D E -> exists s, 0 < s /\ forall x, w D x <= s * down * w E x /\ s * w E x <= up * w D x) ->
  bounded_range near (up * down) M.
Proof.
move=> up0 down0 wM moves D E near_DE; have [s [s0 near_w]] := moves D E near_DE.
have [w0 [W [W_pos [tot MD]]]] := wM D; have [v0 [V [V_pos [tov ME]]]] := wM E.
exists (s * down * V / W); split; first by rewrite divr_gt0 // !mulr_gt0.
move=> x; rewrite MD ME; have [fall rise] := near_w x.
have -> : s * down * V / W * (w E x / V) = s * down * w E x / W.
  by field; rewrite !gt_eqF.
split; first by apply: ler_wpmul2r => //; rewrite invr_ge0 ltW.
rewrite mulrA; apply: ler_wpmul2r; first by rewrite invr_ge0 ltW.
have -> : s * down * w E x = down * (s * w E x) by ring.
have -> : up * down * w D x = down * (up * w D x) by ring.
by apply: ler_wpmul2l => //; exact: ltW.
Qed.

(** Where the laws are of all of the mass, no loss is larger than the range. *)
Theorem bounded_range_pure near (T : eqType) (r : R) (M : mechanism X R T) :
  0 <= r -> (forall D, has_laws M /\ total (M D) 1) -> bounded_range near r M -> private near r 0 M.
Proof.
move=> r0 all1 range D E near_DE; have [c [c0 cM]] := range D E near_DE.
have [lM tD] := all1 D; have [_ tE] := all1 E.
have c_r : c <= r.
  rewrite -[c]mulr1 -ler_pdivl_mull // mulrC; apply: tE.2 => s us.
  rewrite ler_pdivl_mulr // mulrC; apply: (@le_trans _ _ (r * mass (M D) s)).
    by rewrite /mass !mulr_sumr; apply: ler_sum => x _; exact: (cM x).2.
  by rewrite -[X in _ <= X]mulr1; apply: ler_wpmul2l => //; exact: mass_le1.
apply: close_pointwise => x; apply: le_trans (cM x).1 _.
by apply: ler_wpmul2r => //; exact: law_ge0.
Qed.

(** A smaller epsilon for a larger delta: by the claim in both directions, of laws of all of the mass. *)
Theorem convert_to_less near (T : eqType) (t d t' : R) (M : mechanism X R T) :
  1 < t -> 1 <= t' <= t -> (forall D E, near D E -> near E D) ->
  (forall D, has_laws M /\ total (M D) 1) -> private near t d M ->
  private near t' ((d * (1 + t') + (t - t')) / (1 + t)) M.
Proof.
move=> t1 /andP[t'1 t't] sym all1 pM D E near_DE s us.
have [lM _] := all1 D; have [_ [_ least]] := all1 E.
have t_pos : 0 < t by apply: lt_trans t1; exact: ltr01.
have low : 1 - d <= mass (M E) s + t * (1 - mass (M D) s).
  rewrite ler_subl_addr; apply: least => l ul.
  pose off := [seq x <- l | x \notin s].
  have uoff : uniq off by rewrite filter_uniq.
  have le_off := pM E D (sym _ _ near_DE) off uoff.
  have ucat : uniq (s ++ off).
    by rewrite cat_uniq us uoff andbT; apply/hasPn => x; rewrite mem_filter => /andP[].
  have both : mass (M D) off + mass (M D) s <= 1.
    by rewrite addrC /mass -big_cat; exact: mass_le1 (lM D) ucat.
  have {}le_off : mass (M E) off <= t * (1 - mass (M D) s) + d.
    apply: le_trans le_off _; rewrite ler_add2r; apply: ler_wpmul2l; first exact: ltW.
    by rewrite ler_subr_addr.
  apply: (@le_trans _ _ (mass (M E) (s ++ off))).
    rewrite -(undup_id ucat); apply: mass_sub => [x||x x_l]; [exact: law_ge0 | exact: ul |].
    by rewrite mem_cat mem_filter x_l andbT; case: (x \in s).
  by rewrite /mass big_cat /= -addrA; apply: ler_add.
have up := pM D E near_DE s us.
set p := mass (M D) s in low up *; set q := mass (M E) s in low up *.
have d1 : 0 < 1 + t by rewrite addr_gt0 // ltr01.
have d2 : 0 < t - 1 by rewrite subr_gt0.
have ne1 : 1 + t != 0 by rewrite gt_eqF.
have ne2 : t - 1 != 0 by rewrite gt_eqF.
rewrite -subr_ge0.
have -> : t' * q + (d * (1 + t') + (t - t')) / (1 + t) - p =
    ((t * t' - 1) * (t * q + d - p) + (t - t') * (q + t * (1 - p) - (1 - d))) / ((1 + t) * (t - 1)).
  by field; rewrite ne1 ne2.
apply: divr_ge0; last by apply: mulr_ge0; exact: ltW.
apply: addr_ge0; apply: mulr_ge0; rewrite ?subr_ge0 //.
by rewrite -[X in X <= _]mulr1; apply: ler_pmul; rewrite ?ler01 // ltW.
Qed.

Lemma response_ge0 (t : R) options truth x : 0 <= t -> 0 <= response t options truth x.
Proof.
move=> t0; rewrite /response; case: ifP => // _; apply: divr_ge0; last by rewrite addr_ge0 ?ler0n.
by case: ifP => // _; exact: ler01.
Qed.

Lemma response_moved (t : R) options a b x : 1 <= t ->
  response t options a x <= t ^+ (a != b) * response t options b x.
Proof.
move=> t1; have t0 : 0 < t by apply: lt_le_trans t1; exact: ltr01.
case: eqP => [->|_]; first by rewrite mul1r.
rewrite /response; case: (x \in options); last by rewrite mulr0.
have den : 0 <= (t + (size options).-1%:R)^-1 by rewrite invr_ge0 addr_ge0 ?ler0n // ltW.
rewrite expr1 mulrA; apply: ler_wpmul2r => //.
have tt : t <= t * t by rewrite ler_pmulr.
case: (x == a); case: (x == b); rewrite ?mulr1 //.
exact: le_trans t1 tt.
Qed.

(** Answers, each of which is kept or not on its own; of neighbors at most [moved] differ. *)
Theorem randomized_response (t : R) (options : seq nat) near (answers : seq X -> seq nat) (moved : nat) :
  1 <= t ->
  (forall D E, near D E -> size (answers D) = size (answers E) /\
     (hamming (answers D) (answers E) <= moved)%N) ->
  private near (t ^+ moved) 0 (fun D => product [seq response t options a | a <- answers D]).
Proof.
move=> t1 moves D E near_DE; have [sizes far] := moves D E near_DE.
have t0 : 0 <= t by apply: le_trans t1; exact: ler01.
have ge0 vs u : 0 <= product [seq response t options a | a <- vs] u.
  by elim: vs u => [|v vs IH] [|x u] //=; [exact: ler01 | apply: mulr_ge0; [exact: response_ge0 | exact: IH]].
apply: close_pointwise => u.
apply: (@le_trans _ _ (t ^+ hamming (answers D) (answers E) * product [seq response t options a | a <- answers E] u)).
  rewrite /hamming; elim: (answers D) (answers E) u sizes {far} => [|v vs IH] [|w ws] [|x u] //= sizes;
    rewrite ?mulr0 // ?big_nil ?expr0 ?mul1r //.
  rewrite big_cons exprD mulrACA /=; apply: ler_pmul => //; first exact: response_ge0.
    exact: response_moved.
  by apply: IH; case: sizes.
by apply: ler_wpmul2r; [exact: ge0 | exact: ler_weexpn2l].
Qed.

Lemma noisy_law p values : law p -> law (noisy p values).
Proof.
move=> lp; apply: product_law; elim: values => //= v values IH; split=> //.
split=> [u|s us]; first exact: law_ge0.
have us' : uniq [seq u - v | u <- s] by rewrite map_inj_uniq //; exact: addIr.
by have := mass_le1 lp us'; rewrite /mass big_map.
Qed.

Theorem discrete_laplace_mechanism near (q : R) p (query : seq X -> seq int) (moved : nat) :
  discrete_laplace q p ->
  (forall D E, near D E -> size (query D) = size (query E) /\ (l1 (query D) (query E) <= moved)%N) ->
  private near (q ^+ moved)^-1 0 (fun D => noisy p (query D)).
Proof.
move=> lap moves D E near_DE; have [sizes far] := moves D E near_DE.
have /andP[q0 q1] : 0 < q < 1 by case: lap.
have p0 z : 0 <= p z by case: lap => _ [/law_ge0].
apply: close_pointwise => u; rewrite ler_pdivl_mull ?exprn_gt0 //.
apply: (@le_trans _ _ (q ^+ l1 (query D) (query E) * noisy p (query D) u)).
  apply: ler_wpmul2r; first by apply: law_ge0; apply: noisy_law; case: lap => _ [].
  by apply: ler_wiexpn2l; rewrite ?ltW.
rewrite /l1 /noisy; elim: (query D) (query E) u sizes {far} => [|v vs IH] [|w ws] [|x u] //= sizes;
  rewrite ?mulr0 // ?big_nil ?expr0 ?mul1r //.
rewrite big_cons exprD mulrACA /=; apply: ler_pmul.
- by apply: mulr_ge0 => //; apply: exprn_ge0; exact: ltW.
- apply: mulr_ge0; first by apply: exprn_ge0; exact: ltW.
  by apply: law_ge0; apply: (noisy_law vs); case: lap => _ [].
- have := laplace_shift lap (x - v) (v - w); rewrite (_ : x - v + (v - w) = x - w) //; lia.
- by apply: IH; case: sizes.
Qed.

End Noise.
