(** AboveThreshold with discrete Laplace noise: as private as an integer that moves by 2 D. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum ssrint order.
From mathcomp Require Import ring zify.
Require Import Definitions Mechanisms Sums.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Lemma size_up (z : int) (m : nat) : - m%:Z <= z ->
  (`|(z + (2 * m)%N%:Z)%R| = m + `|(z + m%:Z)%R|)%N.
Proof. lia. Qed.

Lemma size_down (z : int) (m : nat) : z < - m%:Z -> (m + `|(z + m%:Z)%R| = `|z|)%N.
Proof. lia. Qed.

Lemma falls_far (z v v' : int) (m : nat) : 0 <= v - v' <= m%:Z ->
  z - v <= z - v' /\ z - v' <= z - v + m%:Z.
Proof. lia. Qed.

Section AboveThreshold.
Variable R : realFieldType.

Section Tails.
Variables (q : R) (p above : int -> R).
Hypotheses (lap : discrete_laplace q p) (tl : tail p above).

Let q_pos : 0 < q. Proof. by case: lap => /andP[]. Qed.
Let p_law : law p. Proof. by case: lap => _ []. Qed.

Lemma laplace_shift (z k : int) : q ^+ `|k|%N * p z <= p (z + k).
Proof.
case: lap => /andP[q0 q1] [lp [c pc]].
have c0 : 0 <= c by have := law_ge0 lp 0; rewrite pc absz0 expr0 mulr1.
rewrite !pc mulrCA; apply: ler_wpmul2l => //; rewrite -exprD.
by apply: ler_wiexpn2l; [exact: ltW | exact: ltW | lia].
Qed.

Lemma part_ge0 w y : 0 <= (if w <= y then p y else 0).
Proof. by case: ifP => // _; exact: law_ge0. Qed.

Lemma above01 w : 0 <= above w <= 1.
Proof.
apply/andP; split.
  by apply: le_trans (mass_total (tl w) (isT : uniq [::])); rewrite /mass big_nil.
apply: (tl w).2 => s us; apply: le_trans (mass_le1 p_law us).
by apply: ler_sum => y _; case: ifP => // _; exact: law_ge0.
Qed.

Lemma above_falls w v : w <= v -> above v <= above w.
Proof.
move=> wv; apply: (tl v).2 => s us; apply: le_trans (mass_total (tl w) us).
apply: ler_sum => y _; case: ifP => [vy|_]; last exact: part_ge0.
by rewrite (le_trans wv vy).
Qed.

Lemma above_shift (w : int) (k : nat) : q ^+ k * above w <= above (w + k%:Z).
Proof.
rewrite mulrC -ler_pdivl_mulr ?exprn_gt0 //; apply: (tl w).2 => s us.
rewrite ler_pdivl_mulr ?exprn_gt0 // mulrC.
have us' : uniq [seq y + k%:Z | y <- s] by rewrite map_inj_uniq //; exact: addIr.
apply: le_trans (mass_total (tl (w + k%:Z)) us'); rewrite /mass big_map mulr_sumr.
apply: ler_sum => y _; rewrite ler_add2r; case: ifP => _; last by rewrite mulr0.
exact: (laplace_shift y k%:Z).
Qed.

Lemma above_within (w v : int) (k : nat) : v <= w + k%:Z -> q ^+ k * above w <= above v.
Proof. by move=> vw; apply: le_trans (above_shift w k) _; exact: above_falls. Qed.

End Tails.

Definition fractions (cs : seq R) : Prop := forall c, c \in cs -> 0 <= c <= 1.

Lemma first_above_law cs : fractions cs -> law (first_above cs).
Proof.
elim: cs => [_|c cs IH ok].
  split=> [[|k] //|s us]; first exact: ler01.
  rewrite /mass; case zero_s: (0%N \in s).
    by rewrite (bigD1_seq 0%N) //= big1 ?addr0 // => -[|k].
  by rewrite big1_seq ?ler01 // => -[|k] //=; rewrite zero_s.
have /andP[c0 c1] := ok c (mem_head _ _).
have b0 : 0 <= 1 - c by rewrite subr_ge0.
have lcs : law (first_above cs) by apply: IH => b b_cs; apply: ok; rewrite inE b_cs orbT.
split=> [[|k] //=|s us]; first by apply: mulr_ge0 => //; exact: law_ge0.
have us' : uniq [seq k.-1 | k <- s & k != 0%N].
  rewrite map_inj_in_uniq ?filter_uniq // => -[|k] [|l]; rewrite !mem_filter //= => _ _ -> //.
have := mass_le1 lcs us'; rewrite /mass big_map big_filter => le1.
rewrite (bigID (fun k => k == 0%N)) /=; apply: (@le_trans _ _ (c + (1 - c) * 1)); last first.
  by rewrite mulr1 addrC subrK.
apply: ler_add.
  case zero_s: (0%N \in s); last first.
    by rewrite big1_seq // => k /andP[/eqP->]; rewrite zero_s.
  by rewrite big_mkcond (bigD1_seq 0%N) //= big1 ?addr0 // => k /negbTE->.
apply: le_trans (ler_wpmul2l b0 le1); rewrite mulr_sumr; apply: ler_sum => -[|k] //.
Qed.

(** Reports whose chances are moved: each query's is lowered, and by a factor of at most [a]. *)
Lemma first_above_moved (a : R) (cs cs' : seq R) k : 0 <= a <= 1 -> size cs = size cs' ->
  fractions cs -> fractions cs' ->
  (forall i, (i < size cs)%N -> nth 0 cs' i <= nth 0 cs i /\ a * nth 0 cs i <= nth 0 cs' i) ->
  a * first_above cs k <= first_above cs' k.
Proof.
case/andP=> a0 a1; elim: cs cs' k => [|c cs IH] [|c' cs'] k //= sizes ok ok' near.
  by case: k => [|k]; rewrite ?mulr1 ?mulr0.
have /andP[c0 c1] := ok c (mem_head _ _).
have okt : fractions cs by move=> b b_cs; apply: ok; rewrite inE b_cs orbT.
have okt' : fractions cs' by move=> b b_cs; apply: ok'; rewrite inE b_cs orbT.
have := near 0%N isT; rewrite /= => -[le_c a_c].
case: k => [|k] //; rewrite mulrCA; apply: ler_pmul.
- by rewrite subr_ge0.
- by apply: mulr_ge0 => //; apply: law_ge0; exact: first_above_law.
- by rewrite ler_add2l ler_opp2.
- by apply: IH => // [|i li]; [case: sizes | exact: (near i.+1)].
Qed.

(** A shift of the noise that keeps what follows nearly the same. *)
Lemma close_shifted (T U : eqType) (p : T -> R) (K L : T -> U -> R) N N' (g : T -> T) (c : R) :
  0 <= c -> injective g -> (forall z, 0 <= p z) -> (forall z u, 0 <= K z u) ->
  (forall z u, 0 <= L z u) -> image p K N -> image p L N' ->
  (forall z u, p z * K z u <= c * (p (g z) * L (g z) u)) -> close c 0 N N'.
Proof.
move=> c0 inj_g p0 K0 L0 KN LN le_c s us; rewrite addr0.
apply: (sum_totals (f := fun u z => p z * K z u) _ KN) => [u z|l ul]; first exact: mulr_ge0.
rewrite mulr_sumr; apply: ler_sum => u _.
have ul' : uniq (map g l) by rewrite map_inj_uniq.
apply: le_trans (ler_wpmul2l c0 (mass_total (LN u) ul')).
by rewrite /mass big_map mulr_sumr; apply: ler_sum => z _; exact: le_c.
Qed.

(** For the pure claim and for the profile: with the threshold moved along by [D], a report is at most
    a factor [a] = q^D rarer. [D] bounds how far each query moves. *)
Section Moved.
Variables (q qy : R) (p py above : int -> R) (D : nat).
Hypotheses (lap : discrete_laplace q p) (lapy : discrete_laplace qy py) (tl : tail py above).

Lemma report_law vs z : law (report above vs z).
Proof. by apply: first_above_law => _ /mapP[v _ ->]; exact: above01 lapy tl _. Qed.

Lemma report_moved (k : nat) (vs vs' : seq int) z u :
  q ^+ D <= qy ^+ k -> size vs = size vs' ->
  (forall i, (i < size vs)%N -> nth 0 vs' i <= nth 0 vs i + D%:Z /\
     nth 0 vs i + D%:Z <= nth 0 vs' i + k%:Z) ->
  q ^+ D * report above vs z u <= report above vs' (z + D%:Z) u.
Proof.
move=> qk sizes near.
have /andP[q0 q1] : 0 < q < 1 by case: lap.
apply: first_above_moved.
- by apply/andP; split; [apply: exprn_ge0 | apply: exprn_ile1]; exact: ltW.
- by rewrite !size_map.
- by move=> _ /mapP[v _ ->]; exact: above01 lapy tl _.
- by move=> _ /mapP[v _ ->]; exact: above01 lapy tl _.
move=> i; rewrite size_map => li; have [up down] := near i li.
rewrite !(nth_map 0) -?sizes //; set v := nth 0 vs i in up down *; set v' := nth 0 vs' i in up down *.
split; first by apply: (above_falls lapy tl); lia.
apply: le_trans (above_within lapy tl (w := z - v) (k := k) _); last by lia.
by apply: ler_wpmul2r => //; case/andP: (above01 lapy tl (z - v)).
Qed.

(** What the shift's masses give: p(z) <= q^-D p(z + D). *)
Lemma masses_moved z : p z <= (q ^+ D)^-1 * p (z + D%:Z).
Proof.
have /andP[q0 q1] : 0 < q < 1 by case: lap.
by rewrite ler_pdivl_mull ?exprn_gt0 //; exact: (laplace_shift lap z D%:Z).
Qed.

End Moved.

Section Claims.
Variables (X : eqType) (queries : seq X -> seq int) (q qy : R) (p py above : int -> R).
Variables (M : mechanism X R nat_eqType).
Notation move_by := (move_by queries).
Notation move_one_way := (move_one_way queries).
Hypotheses (lap : discrete_laplace q p) (lapy : discrete_laplace qy py) (tl : tail py above).
Hypothesis law_of_M : forall D, image p (report above (queries D)) (M D).

Let q01 : 0 < q < 1. Proof. by case: lap. Qed.
Let q0 : 0 < q. Proof. by case/andP: q01. Qed.
Let q1 : q < 1. Proof. by case/andP: q01. Qed.
Let qy0 : 0 < qy. Proof. by case: lapy => /andP[]. Qed.
Let p0 z : 0 <= p z. Proof. by case: lap => _ [/law_ge0]. Qed.

Lemma close_moved (moved : nat) (t d : R) D E : 1 <= t ->
  close t d p (fun z => p (z + (2 * moved)%N%:Z)) ->
  (forall z u, q ^+ moved * report above (queries D) z u <= report above (queries E) (z + moved%:Z) u) ->
  close t d (M D) (M E).
Proof.
move=> t1 shift KL s us.
have t0 : 0 <= t by apply: le_trans t1; exact: ler01.
pose K := report above (queries D); pose L := report above (queries E).
have lK z : law (K z) by exact: report_law lapy tl _ _.
have lL z : law (L z) by exact: report_law lapy tl _ _.
(* where the threshold's noise is above -D the two shifts agree, below it nothing is gained *)
have gain z : p z - t * (q ^+ moved * p (z + moved%:Z)) <= Num.max 0 (p z - t * p (z + (2 * moved)%N%:Z)).
  case: lap => _ [_ [c pc]].
  have c0 : 0 <= c by have := p0 0; rewrite pc absz0 expr0 mulr1.
  rewrite le_maxr; case: (lerP (- moved%:Z) z) => zD; apply/orP.
    right; rewrite ler_add2l ler_opp2; apply: ler_wpmul2l => //; rewrite !pc mulrCA -exprD.
    apply: ler_wpmul2l => //; apply: ler_wiexpn2l; [exact: ltW | exact: ltW | by clear -zD; lia].
  left; rewrite subr_le0 !pc.
  have -> : q ^+ moved * (c * q ^+ `|(z + moved%:Z)|) = c * q ^+ `|z|%N.
    by rewrite mulrCA -exprD; congr (_ * _ ^+ _); clear -zD; lia.
  rewrite -[X in X <= _]mul1r; apply: ler_wpmul2r => //.
  by apply: mulr_ge0 => //; apply: exprn_ge0; exact: ltW.
pose plus z := Num.max 0 (p z - t * p (z + (2 * moved)%N%:Z)).
have plus0 z : 0 <= plus z by rewrite le_maxr lexx.
have sum_plus l : uniq l -> \sum_(z <- l) plus z <= d.
  move=> ul; have := shift _ (filter_uniq (fun z => 0 <= p z - t * p (z + (2 * moved)%N%:Z)) ul).
  rewrite -ler_subl_addl mulr_sumr -sumrB big_filter => le_d; apply: le_trans le_d.
  rewrite [X in _ <= X]big_mkcond; apply: ler_sum => z _; rewrite /plus.
  by case: (leP 0 (p z - t * _)).
apply: (sum_totals (f := fun u z => p z * K z u) _ (law_of_M D)) => [u z|l ul].
  by apply: mulr_ge0 => //; exact: law_ge0.
rewrite /mass exchange_big /=; under eq_bigr do rewrite -mulr_sumr.
pose w z := \sum_(u <- s) K z u.
have w0 z : 0 <= w z by apply: mass_ge0; exact: law_ge0.
have w1 z : w z <= 1 by exact: mass_le1.
apply: (@le_trans _ _ (\sum_(z <- l) (t * (p (z + moved%:Z) * \sum_(u <- s) L (z + moved%:Z) u) + plus z))).
  apply: ler_sum => z _; rewrite -/(w z).
  apply: (@le_trans _ _ (t * (q ^+ moved * p (z + moved%:Z)) * w z + plus z)).
    rewrite -ler_subl_addl -mulrBl; apply: (@le_trans _ _ (plus z * w z)).
      by apply: ler_wpmul2r => //; exact: gain.
    by rewrite ler_pimulr.
  rewrite ler_add2r -mulrA; apply: ler_wpmul2l => //; rewrite mulrAC mulrC; apply: ler_wpmul2l => //.
  by rewrite /w mulr_sumr; apply: ler_sum => u _; exact: KL.
rewrite big_split /= -mulr_sumr; apply: ler_add; last exact: sum_plus.
apply: ler_wpmul2l => //; under eq_bigr do rewrite mulr_sumr.
rewrite exchange_big /=; apply: ler_sum => u _.
have ul' : uniq [seq z + moved%:Z | z <- l] by rewrite map_inj_uniq //; exact: addIr.
by apply: le_trans (mass_total (law_of_M E u) ul'); rewrite /mass big_map.
Qed.

(** Noise of twice the threshold's scale on the queries: q <= qy^2. As private as an integer that moves
    by 2 D under the threshold's noise alone, at every t >= 1. *)
Theorem above_threshold (near : seq X -> seq X -> Prop) (moved : nat) (t d : R) :
  1 <= t -> q <= qy ^+ 2 -> move_by near moved ->
  close t d p (fun z => p (z + (2 * moved)%N%:Z)) -> private near t d M.
Proof.
move=> t1 q_qy moves shift D E near_DE; have [sizes near_v] := moves D E near_DE.
apply: (close_moved t1 shift) => z u.
apply: (report_moved lap lapy tl (k := (2 * moved)%N)) => // [|i _].
  by rewrite exprM; apply: ler_expn2r; rewrite // nnegrE; [exact: ltW | exact: exprn_ge0 (ltW qy0)].
by move: (near_v i); clear; lia.
Qed.

(** What is certain but for a factor is at most what the shift gives. *)
Lemma one_less_factor (moved : nat) (t d : R) : 1 <= t -> total p 1 ->
  close t d p (fun z => p (z + (2 * moved)%N%:Z)) -> 1 - t * q ^+ moved <= d.
Proof.
move=> t1 [_ least] shift; have t0 : 0 <= t by apply: le_trans t1; exact: ler01.
case: (lap) => _ [lp [c pc]].
have c0 : 0 <= c by have := p0 0; rewrite pc absz0 expr0 mulr1.
have a0 : 0 <= q ^+ moved by apply: exprn_ge0; exact: ltW.
rewrite ler_subl_addr; apply: least => s us.
pose up z := - moved%:Z <= z.
have := shift _ (filter_uniq up us); rewrite {2}/mass big_filter => le_up.
have us' : uniq [seq z + moved%:Z | z <- s] by rewrite map_inj_uniq //; exact: addIr.
have := mass_le1 lp us'; rewrite /mass big_map => le1.
have : mass p s <= d + t * q ^+ moved * \sum_(z <- s) p (z + moved%:Z).
  rewrite /mass (bigID up) /= [X in _ * X](bigID up) /= mulrDr addrA; apply: ler_add.
    have := le_up; rewrite /mass big_filter addrC => /le_trans; apply; rewrite ler_add2l -mulrA.
    apply: ler_wpmul2l => //; rewrite mulr_sumr; apply: ler_sum => z up_z.
    by rewrite !pc mulrCA -exprD (size_up up_z).
  rewrite mulr_sumr; apply: ler_sum => z down_z; rewrite !pc -mulrA [q ^+ _ * _]mulrCA -exprD.
  rewrite (size_down (z := z)); last by rewrite ltNge.
  by rewrite -[X in X <= _]mul1r; apply: ler_wpmul2r => //; apply: mulr_ge0 => //; apply: exprn_ge0; exact: ltW.
move=> /le_trans; apply; rewrite ler_add2l -[X in _ <= X]mulr1; apply: ler_wpmul2l => //.
exact: mulr_ge0.
Qed.

(** Where all queries move one way, noise of the threshold's own scale is enough: q <= qy. *)
Theorem above_threshold_one_way (near : seq X -> seq X -> Prop) (moved : nat) (t d : R) :
  1 <= t -> q <= qy -> total p 1 -> move_one_way near moved ->
  close t d p (fun z => p (z + (2 * moved)%N%:Z)) -> private near t d M.
Proof.
move=> t1 q_qy all_p moves shift D E near_DE.
have [sizes [rise|fall]] := moves D E near_DE.
  apply: (close_moved t1 shift) => z u.
  apply: (report_moved lap lapy tl (k := moved)) => // [|i _].
    by apply: ler_expn2r; rewrite // nnegrE ltW.
  by move: (rise i); clear; lia.
have t0 : 0 <= t by apply: le_trans t1; exact: ler01.
have le_d := one_less_factor t1 all_p shift.
have d0 : 0 <= d by have := shift [::] isT; rewrite /mass !big_nil mulr0 add0r.
have lK vs z : law (report above vs z) by exact: report_law lapy tl _ _.
have qy_pos : 0 < qy ^+ moved by rewrite exprn_gt0.
(* nothing is moved along: each report is at most a factor rarer *)
have near0 : close (qy ^+ moved)^-1 0 (M D) (M E).
  apply: (@close_shifted _ _ p (report above (queries D)) (report above (queries E)) _ _ id) => //.
  - by rewrite invr_ge0 ltW.
  - by move=> z u; apply: law_ge0.
  - by move=> z u; apply: law_ge0.
  move=> z u; rewrite ler_pdivl_mull // mulrCA; apply: ler_wpmul2l => //.
  apply: first_above_moved.
  - by apply/andP; split; [apply: exprn_ge0 | apply: exprn_ile1]; apply: ltW => //; case: lapy => /andP[].
  - by rewrite !size_map.
  - by move=> _ /mapP[v _ ->]; exact: above01 lapy tl _.
  - by move=> _ /mapP[v _ ->]; exact: above01 lapy tl _.
  move=> i; rewrite size_map => li; have := fall i.
  rewrite !(nth_map 0) -?sizes //; set v := nth 0 _ i; set v' := nth 0 _ i => vv.
  have [up down] := falls_far z vv.
  by split; [exact: (above_falls lapy tl) | exact: (above_within lapy tl)].
have lM D' : law (M D').
  by apply: (image_law _ _ (law_of_M D')) => //; case: lap => _ [].
move=> s us; have := near0 s us; rewrite addr0 ler_pdivl_mull // => le_f.
set A := mass (M D) s in le_f *; have A0 : 0 <= A by apply: mass_ge0; exact: law_ge0.
rewrite -ler_subl_addl; apply: (@le_trans _ _ (A * (1 - t * qy ^+ moved))).
  have -> : A * (1 - t * qy ^+ moved) = A - t * (qy ^+ moved * A) by ring.
  by rewrite ler_add2l ler_opp2; apply: ler_wpmul2l.
case: (lerP 0 (1 - t * qy ^+ moved)) => sign.
  apply: (@le_trans _ _ (1 - t * qy ^+ moved)); first by apply: ler_pimull => //; exact: mass_le1.
  apply: le_trans le_d; rewrite ler_add2l ler_opp2; apply: ler_wpmul2l => //.
  by apply: ler_expn2r; rewrite // nnegrE ltW.
by apply: le_trans d0; apply: mulr_ge0_le0 => //; exact: ltW.
Qed.

(** The pure claim: q^(2 D) stands for e^(-2 D / scale). *)
Corollary shift_is_pure (moved : nat) :
  close (q ^+ (2 * moved))^-1 0 p (fun z => p (z + (2 * moved)%N%:Z)).
Proof.
move=> s us; rewrite addr0 /mass mulr_sumr; apply: ler_sum => z _.
by rewrite ler_pdivl_mull ?exprn_gt0 //; exact: (laplace_shift lap z (2 * moved)%N%:Z).
Qed.

End Claims.

End AboveThreshold.
