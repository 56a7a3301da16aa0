(** Laws by their weights: randomized response, vectors of discrete Laplace noise, choices by weight. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum ssrint order.
From mathcomp Require Import ring zify.
Require Import Definitions Sums Transfer Products AboveThreshold.
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
Implicit Type near : seq X -> seq X -> Prop.

(** Masses proportional to weights of finite, positive total. *)
Definition by_weight (T : eqType) (w : T -> R) (P : T -> R) : Prop :=
  (forall x, 0 <= w x) /\ exists W, 0 < W /\ total w W /\ forall x, P x = w x / W.

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

(** Every weight changes by a factor of at most [a], up or down. *)
Theorem exponential_mechanism near (T : eqType) (a : R) (w : seq X -> T -> R) (M : mechanism X R T) :
  0 < a -> (forall D, by_weight (w D) (M D)) ->
  (forall D E, near D E -> forall x, w D x <= a * w E x /\ w E x <= a * w D x) ->
  private near (a * a) 0 M.
Proof.
move=> a_pos wM moves D E near_DE; apply: close_pointwise => x.
have [w0 [W [W_pos [tot ->]]]] := wM D; have [v0 [V [V_pos [tov ->]]]] := wM E.
have le_V : V <= a * W by apply: (total_scaled (ltW a_pos) _ tov tot) => y; exact: (moves D E near_DE y).2.
have [le_w _] := moves D E near_DE x.
rewrite ler_pdivr_mulr //; apply: le_trans le_w _.
have -> : a * a * (w E x / V) * W = a * w E x * (a * W / V) by ring.
rewrite -[X in X <= _]mulr1; apply: ler_wpmul2l; first by apply: mulr_ge0 => //; exact: ltW.
by rewrite ler_pdivl_mulr // mul1r.
Qed.

(** All weights move one way: half the cost. *)
Theorem exponential_mechanism_one_way near (T : eqType) (a : R) (w : seq X -> T -> R)
    (M : mechanism X R T) :
  0 < a -> (forall D, by_weight (w D) (M D)) ->
  (forall D E, near D E -> (forall x, w D x <= w E x /\ w E x <= a * w D x) \/
                           (forall x, w E x <= w D x /\ w D x <= a * w E x)) ->
  private near a 0 M.
Proof.
move=> a_pos wM moves D E near_DE; apply: close_pointwise => x.
have [w0 [W [W_pos [tot ->]]]] := wM D; have [v0 [V [V_pos [tov ->]]]] := wM E.
have id1 (u v : R) : u <= v -> u <= 1 * v by rewrite mul1r.
case: (moves D E near_DE) => [up|down].
  have le_V : V <= a * W by apply: (total_scaled (ltW a_pos) _ tov tot) => y; exact: (up y).2.
  rewrite ler_pdivr_mulr //; apply: le_trans (up x).1 _.
  have -> : a * (w E x / V) * W = w E x * (a * W / V) by ring.
  rewrite -[X in X <= _]mulr1; apply: ler_wpmul2l => //.
  by rewrite ler_pdivl_mulr // mul1r.
have le_V : V <= W.
  by rewrite -[X in _ <= X]mul1r; apply: (total_scaled ler01 _ tov tot) => y; apply: id1; exact: (down y).1.
rewrite ler_pdivr_mulr //; apply: le_trans (down x).2 _.
have -> : a * (w E x / V) * W = a * w E x * (W / V) by ring.
rewrite -[X in X <= _]mulr1; apply: ler_wpmul2l; first by apply: mulr_ge0 => //; exact: ltW.
by rewrite ler_pdivl_mulr // mul1r.
Qed.

(** One of [k] answers: the true one with weight [t], every other one with weight 1. *)
Definition response (t : R) (options : seq nat) (truth x : nat) : R :=
  if x \in options then (if x == truth then t else 1) / (t + (size options).-1%:R) else 0.

Theorem randomized_response (t : R) (options : seq nat) near (answer : seq X -> nat) :
  1 <= t -> private near t 0 (fun D => response t options (answer D)).
Proof.
move=> t1 D E _; apply: close_pointwise => x; rewrite /response.
have t0 : 0 < t by apply: lt_le_trans t1; exact: ltr01.
case: (x \in options); last by rewrite mulr0.
have den : 0 <= (t + (size options).-1%:R)^-1 by rewrite invr_ge0 addr_ge0 ?ler0n // ltW.
rewrite mulrA; apply: ler_wpmul2r => //.
have tt : t <= t * t by rewrite ler_pmulr.
case: (x == answer D); case: (x == answer E); rewrite ?mulr1 //.
exact: le_trans t1 tt.
Qed.

(** Integers, each with discrete Laplace noise of its own. *)
Definition noisy (p : int -> R) (values : seq int) : seq int -> R :=
  product [seq (fun u => p (u - v)) | v <- values].

Definition l1 (vs ws : seq int) : nat := \sum_(z <- zip vs ws) `|z.1 - z.2|%N.

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
