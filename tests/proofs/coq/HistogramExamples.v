(** Examples of thresholds: on counts of keys, and on how far a value is from changing. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum ssrint rat order.
From mathcomp Require Import zify.
Require Import Definitions Mechanisms Sums Transfer Products Noise Gaussian Premises Histograms.
Require Import GaussianHistograms Twins Examples GaussianExamples.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Let Q : realFieldType := [realFieldType of rat].

(** Nothing is said of a key that nobody holds; something of one that one record holds in one case
    of three, of others in two. *)
Definition shown (n : nat) : bool -> Q :=
  if n is k.+1 then bit (0 < k)%N else silent Q false.

Lemma shown_laws n : law (shown n) /\ total (shown n) 1.
Proof. by case: n => [|n]; [exact: silent_law | exact: bit_law]. Qed.

Lemma shown_thresholded : thresholded false 2%:R shown.
Proof.
split=> //; split=> [|n m]; first exact: shown_laws.
have [ln _] := bit_law (0 < n)%N; have [lm _] := bit_law (0 < m)%N.
have [->|apart] := eqVneq n m.
  by rewrite subrr expr0; apply: close_refl; [exact: lexx | exact: bit_ge0].
have : (0 < `|n%:Z - m%:Z|)%N by lia.
case: `|n%:Z - m%:Z|%N => // k _; apply: (@close_weaken _ _ 2%:R 0) (bit_close _ _) => //.
  exact: bit_ge0.
by rewrite exprS ler_pmulr // exprn_ege1.
Qed.

Definition keys : seq nat := [:: 0; 1; 2]%N.
Definition held (D : seq nat) (k : nat) : nat := count_mem k D.

Lemma near_held D E : add_remove D E -> exists x, forall k,
  (held D k <= held E k + (x == k))%N /\ (held E k <= held D k + (x == k))%N.
Proof.
have half F G : removed F G -> exists x, forall k, held F k = (held G k + (x == k))%N.
  case=> b [x [a [-> ->]]]; exists x => k; rewrite /held !count_cat /=; lia.
by case=> /half[x same]; exists x => k; rewrite same; split; lia.
Qed.

Lemma alone_least D E x : (forall k, (held D k <= held E k + (x == k))%N) ->
  1 - 1 / 3%:R <= alone false keys shown held D E.
Proof.
move=> few; apply: (@le_trans _ _ (shown 1 false ^+ 1)); first by [].
apply: alone_once => [n||k /eqP none|]; [by case: (shown_laws n) | by [] | |].
  by have := few k; rewrite none add0n => /leq_trans; apply; exact: leq_b1.
rewrite big_mkcond !big_cons big_nil /=.
have := few 0%N; have := few 1%N; have := few 2%N.
by case: x {few} => [|[|[|x]]] /=; case: eqP; case: eqP; case: eqP; lia.
Qed.

Lemma held_moves D E : add_remove D E -> (distance_of keys held D E <= 1)%N /\
  (squares keys held D E <= 1)%N /\ 1 - 1 / 3%:R <= alone false keys shown held D E /\
  1 - 1 / 3%:R <= alone false keys shown held E D.
Proof.
move=> /near_held[x near_x].
have one k : (`|(held D k)%:Z - (held E k)%:Z| <= (x == k))%N.
  by have [] := near_x k; case: (x == k); lia.
split.
  rewrite /distance_of !big_cons big_nil; have := one 0%N; have := one 1%N; have := one 2%N.
  by case: x {near_x one} => [|[|[|x]]] /=; lia.
split.
  have square k : (`|(held D k)%:Z - (held E k)%:Z| ^ 2 <= (x == k))%N.
    by have := one k; case: (x == k); case: `|_|%N => [|[|n]].
  rewrite /squares !big_cons big_nil; have := square 0%N; have := square 1%N; have := square 2%N.
  by case: x {near_x one square} => [|[|[|x]]] /=; lia.
by split; apply: (@alone_least _ _ x) => k; case: (near_x k).
Qed.

Theorem stability_histogram_example : exists (R : realFieldType) (T : eqType) (none : T)
    (X K : eqType) (keys : seq K) (near : seq X -> seq X -> Prop) (t d : R) (moved : nat)
    (cell : nat -> T -> R) (count : seq X -> K -> nat),
  1 <= t /\ d <= 1 /\ thresholded none t cell /\
  (forall D E, near D E -> (distance_of keys count D E <= moved)%N /\
     1 - d <= alone none keys cell count D E /\ 1 - d <= alone none keys cell count E D) /\
  (*told*) ~ private near (t ^+ moved) 0 (released keys cell count).
Proof.
exists Q, bool_eqType, false, nat_eqType, nat_eqType, keys, (@add_remove nat), 2%:R, (1 / 3%:R).
exists 1%N, shown, held; do 2!(split; first by []); split; first exact: shown_thresholded.
split; first by move=> D E /held_moves[far [_ both]].
exact: (not_private (u := [:: true; false; false]) (one_more 0)).
Qed.

Theorem alone_once_example : exists (R : realFieldType) (T : eqType) (none : T) (X K : eqType)
    (keys : seq K) (cell : nat -> T -> R) (count : seq X -> K -> nat) (D E : seq X) (k : nat),
  (forall n, law (cell n)) /\ cell 0%N none = 1 /\
  (forall x, count E x == 0%N -> (count D x <= 1)%N) /\
  (\sum_(x <- keys | count E x == 0%N) count D x <= k)%N /\
  (*told*) alone none keys cell count D E < 1.
Proof.
exists Q, bool_eqType, false, nat_eqType, nat_eqType, keys, shown, held, [:: 0%N], [::], 1%N.
split; first by move=> n; case: (shown_laws n).
split; first by []. split; first by move=> x _; rewrite /held /= addn0 leq_b1.
by rewrite /alone !big_cons !big_nil.
Qed.

(** Whether there are more than one record, and how many would have to come or go to change that. *)
Definition tested_value (i : unit) (D : seq nat) : bool := (1 < size D)%N.
Definition to_change (i : unit) (D : seq nat) : nat := if size D is n.+2 then n.+1 else 2 - size D.
Definition answered (v : bool) (n : nat) (u : option bool) : Q :=
  if u is Some w then (if w == v then bit (1 < n)%N true else 0) else bit (1 < n)%N false.

Lemma answered_laws v n : law (answered v n) /\ total (answered v n) 1.
Proof.
have ge0 u : 0 <= answered v n u.
  by case: u => [w|]; rewrite /answered ?bit_ge0 //; case: ifP => // _; exact: bit_ge0.
have tot : total (answered v n) 1.
  have -> : 1 = mass (answered v n) [:: None; Some true; Some false].
    by rewrite /mass !big_cons big_nil /answered; case: (v); case: (1 < n)%N.
  by apply: total_finite => // -[[]|].
by split=> //; split=> //; exact: tot.1.
Qed.

Theorem propose_test_release_example : exists (R : realFieldType) (T : eqType) (none : T)
    (X I V : eqType) (near : seq X -> seq X -> Prop) (t quiet : R) (cell : V -> nat -> T -> R)
    (tested : seq I) (value : I -> seq X -> V) (far : I -> seq X -> nat),
  1 <= t /\ 0 <= quiet <= 1 /\ (forall v n, law (cell v n) /\ total (cell v n) 1) /\
  (forall v n m, (`|n%:Z - m%:Z| <= 1)%N -> close t 0 (cell v n) (cell v m)) /\
  (forall v, quiet <= cell v 1%N none) /\
  (forall D E, near D E -> forall i, (far i D = 1%N /\ far i E = 1%N) \/
     (value i D = value i E /\ (`|(far i D)%:Z - (far i E)%:Z| <= 1)%N)) /\
  (*told*) ~ private near (t ^+ size tested) 0
    (fun D => product [seq cell (value i D) (far i D) | i <- tested]).
Proof.
exists Q, (option_eqType bool_eqType), None, nat_eqType, unit_eqType, bool_eqType.
exists (@add_remove nat), 2%:R, (2%:R / 3%:R), answered, [:: tt], tested_value, to_change.
do 2!(split; first by []); split; first exact: answered_laws.
split.
  move=> v n m _; apply: close_pointwise => -[w|]; rewrite /answered.
    by case: ifP => _; rewrite ?mulr0 //; case: (1 < n)%N; case: (1 < m)%N.
  by case: (1 < n)%N; case: (1 < m)%N.
split; first by []. split; last first.
  have near : add_remove [:: 0%N] [:: 0; 0]%N by right; exists [::], 0%N, [:: 0%N].
  exact: (not_private (u := [:: Some false]) near).
move=> D E /size_step + i; rewrite /to_change /tested_value {i}.
by case: (size D) (size E) => [|[|n]] [|[|m]] [] e; (left; split; lia) || (right; split; lia).
Qed.

Theorem gaussian_stability_histogram_example : exists (R : realFieldType)
    (gaussian : R -> (nat -> R) -> (nat -> R) -> Prop), premises_and gaussian (
  exists (X K T : eqType) (none : T) (keys : seq K) (near : seq X -> seq X -> Prop) (m d : R)
    (moved : nat) (cell : nat -> T -> R) (count : seq X -> K -> nat),
  0 <= m /\ 0 <= d <= 1 /\ gaussian_thresholded gaussian none m cell /\
  (forall D E, near D E -> (squares keys count D E <= moved)%N /\
     1 - d <= alone none keys cell count D E /\ 1 - d <= alone none keys cell count E D) /\
  (*told*) ~ forall D E, near D E ->
    approximate_gdp gaussian 0 0 (released keys cell count D) (released keys cell count E)).
Proof.
exists Q, (@model Q); apply: model_premises.
exists nat_eqType, nat_eqType, bool_eqType, false, keys, (@add_remove nat), 1, (1 / 3%:R), 1%N.
exists shown, held; do 2!(split; first by []); split.
  split=> //; split=> [|i j]; first exact: shown_laws.
  have [[li _] [lj _]] := (shown_laws i.+1, shown_laws j.+1).
  have [->|apart] := eqVneq i j.
    rewrite subrr mulr0; exact: (gdp_same (@model_images Q) (@model_some Q)).
  by apply: model_any => //; rewrite mul1r ltr0n expn_gt0; lia.
split; first by move=> D E /held_moves[_ [far both]].
by move=> /(_ _ _ (one_more 0)); apply: (model_none (u := [:: true; false; false])).
Qed.
