(** Examples of noise, of choices by weight, and of answers that may be wrong. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum ssrint rat order.
From mathcomp Require Import zify.
Require Import Definitions Mechanisms Sums AboveThreshold Noise Twins NoiseTwins Examples.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Let Q : realFieldType := [realFieldType of rat].

(** The number of records, twice, each with noise of its own. *)
Theorem discrete_laplace_mechanism_example : exists (R : realFieldType) (X : eqType)
    (near : seq X -> seq X -> Prop) (q : R) (p : int -> R) (query : seq X -> seq int) (moved : nat),
  discrete_laplace q p /\
  (forall D E, near D E ->
     size (query D) = size (query E) /\ (l1 (query D) (query E) <= moved)%N) /\
  (*told*) ~ private near 1 0 (fun D => noisy p (query D)).
Proof.
pose sizes (D : seq nat) : seq int := nseq 2 (size D)%:Z; pose h : Q := 1 / 2%:R.
exists Q, nat_eqType, (@add_remove nat), h, (laplace h), sizes, 2%N.
split; first exact: laplace_of_q.
split=> [D E /size_step sizes_DE|].
  by split=> //; rewrite /l1 /= !big_cons big_nil /=; move: sizes_DE; lia.
exact: (not_private (u := [:: 1; 1]) (one_more 1)).
Qed.

Lemma noisy_range near : bounded_range near 4%:R noisy_bit.
Proof.
move=> D E _; exists 2%:R; split=> // x; rewrite /noisy_bit.
by case: (tells D); case: (tells E); case: x.
Qed.

(** Of two bits the right one weighs 2, the other one 1. *)
Theorem exponential_mechanism_example : exists (R : realFieldType) (X : eqType)
    (near : seq X -> seq X -> Prop) (T : eqType) (up down : R) (w : seq X -> T -> R)
    (M : mechanism X R T),
  0 < up /\ 0 < down /\ (forall D, by_weight (w D) (M D)) /\
  (forall D E, near D E -> exists s, 0 < s /\
     forall x, w D x <= s * down * w E x /\ s * w E x <= up * w D x) /\
  (*told*) ~ bounded_range near 1 M.
Proof.
pose w (D : seq nat) (x : bool) : Q := if x == tells D then 2%:R else 1.
exists Q, nat_eqType, (@add_remove nat), bool_eqType, 2%:R, 2%:R, w, noisy_bit.
do 2!split=> //; split.
  move=> D; split=> [x|]; first by rewrite /w; case: (_ == _).
  exists 3%:R; split=> //; split; last by move=> x; rewrite /noisy_bit /bit /w; case: (_ == _).
  have -> : 3%:R = mass (w D) [:: true; false].
    by rewrite /mass !big_cons big_nil /w; case: (tells D).
  by apply: total_finite => // [x|[]] //; rewrite /w; case: (_ == _).
split.
  by move=> D E _; exists 1; split=> // x; rewrite /w; case: (x == _); case: (x == _).
move=> /(_ _ _ (one_more 1))[c [_ both]].
have [_ low] := both false; have [high _] := both true; move: low high.
rewrite /noisy_bit /bit /= mul1r => low high.
have third : 0 < 3%:R^-1 :> Q by [].
have {}high : 2%:R <= c by move: high; rewrite mul1r ler_pmul2r.
have {}low : c * 2%:R <= 1 by rewrite -(ler_pmul2r third) -mulrA; exact: low.
by have := le_trans (ler_wpmul2r (isT : 0 <= 2%:R :> Q) high) low.
Qed.

Theorem bounded_range_pure_example : exists (R : realFieldType) (X : eqType)
    (near : seq X -> seq X -> Prop) (T : eqType) (r : R) (M : mechanism X R T),
  0 <= r /\ (forall D : seq X, has_laws M /\ total (M D) 1) /\ bounded_range near r M /\
  (*told*) ~ private near 1 0 M.
Proof.
exists Q, nat_eqType, (@add_remove nat), bool_eqType, 4%:R, noisy_bit; split=> //.
split; first by move=> D; split; [exact: noisy_laws | case: (bit_law (tells D))].
split; first exact: noisy_range.
exact: (not_private (u := true) (one_more 1)).
Qed.

Theorem convert_to_less_example : exists (R : realFieldType) (X : eqType)
    (near : seq X -> seq X -> Prop) (T : eqType) (t d t' : R) (M : mechanism X R T),
  1 < t /\ 1 <= t' <= t /\ (forall D E, near D E -> near E D) /\
  (forall D, has_laws M /\ total (M D) 1) /\ private near t d M /\ (*told*) ~ private near t' d M.
Proof.
exists Q, nat_eqType, (@add_remove nat), bool_eqType, 2%:R, 0, 1, noisy_bit.
do 2!split=> //; split; first by move=> D E [near|near]; [right | left].
split; first by move=> D; split; [exact: noisy_laws | case: (bit_law (tells D))].
split; first exact: noisy_private.
exact: (not_private (u := true) (one_more 1)).
Qed.

(** Each record is an answer of its own. *)
Theorem randomized_response_example : exists (R : realFieldType) (X : eqType) (t : R)
    (options : seq nat) (near : seq X -> seq X -> Prop) (answers : seq X -> seq nat) (moved : nat),
  1 <= t /\
  (forall D E, near D E -> size (answers D) = size (answers E) /\
     (hamming (answers D) (answers E) <= moved)%N) /\
  (*told*) ~ private near 1 0 (fun D => product [seq response t options a | a <- answers D]).
Proof.
exists Q, nat_eqType, 2%:R, [:: 0%N; 1%N], (@replace nat), id, 1%N; split=> //.
split=> [_ _ [b [x [y [a [-> ->]]]]]|]; last exact: (not_private (u := [:: 1%N]) (another 1 0)).
split; first by rewrite !size_cat.
have same (c : seq nat) : hamming c c = 0%N.
  by elim: c => [|z c IH]; rewrite /hamming ?big_nil //= big_cons -/(hamming c c) IH /= eqxx.
rewrite /hamming zip_cat // big_cat /= big_cons -/(hamming b b) -/(hamming a a) !same /=.
by rewrite add0n addn0; case: (x != y).
Qed.
