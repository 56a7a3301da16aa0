(** Examples: all that a theorem asks can be met at once, by mechanisms that tell something.

    Every theorem that is tied to a rule has one, here or in another file of examples. Its statement
    has the theorem's hypotheses, as the ties print them, and one thing more, after "told": the
    conclusion would be false with smaller numbers, so that the mechanism is not one that tells
    nothing. A hypothesis that is changed later has to be met again. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum ssrint rat order.
Require Import Definitions Mechanisms Sums Transfer Products Rules Maps Noise Twins CouplingTwins.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Let Q : realFieldType := [realFieldType of rat].

(** A bit, told rightly in two cases of three. *)
Definition bit (b x : bool) : Q := if x == b then 2%:R / 3%:R else 1 / 3%:R.

Lemma bit_ge0 b x : 0 <= bit b x.
Proof. by case: b; case: x. Qed.

Lemma bit_law b : law (bit b) /\ total (bit b) 1.
Proof.
have tot : total (bit b) 1.
  have -> : 1 = mass (bit b) [:: true; false] by rewrite /mass !big_cons big_nil; case: b.
  by apply: total_finite => // [x|[]]; [exact: bit_ge0 | |].
by split=> //; split; [exact: bit_ge0 | exact: tot.1].
Qed.

Lemma bit_close b c : close 2%:R 0 (bit b) (bit c).
Proof. by apply: close_pointwise => x; case: b; case: c; case: x. Qed.

(** Whether the sum of the records is odd. *)
Definition tells (D : seq nat) : bool := odd (sumn D).
Definition noisy_bit (D : seq nat) : bool -> Q := bit (tells D).

Lemma noisy_laws : has_laws noisy_bit.
Proof. by move=> D; case: (bit_law (tells D)). Qed.

Lemma noisy_private near : private near 2%:R 0 noisy_bit.
Proof. by move=> D E _; exact: bit_close. Qed.

Lemma one_more (x : nat) : add_remove [:: x] [::].
Proof. by left; exists [::], x, [::]. Qed.

Lemma another (x y : nat) : replace [:: x] [:: y].
Proof. by exists [::], x, y, [::]. Qed.

(** One output that is likelier shows that a claim is false. *)
Lemma not_close (T : eqType) (t d : Q) (P S : T -> Q) u : t * S u + d < P u -> ~ close t d P S.
Proof. by move=> far /(_ [:: u] isT); rewrite /mass !big_seq1 leNgt far. Qed.

Lemma not_private (X T : eqType) (near : seq X -> seq X -> Prop) (t d : Q)
    (M : mechanism X Q T) D E u : near D E -> t * M E u + d < M D u -> ~ private near t d M.
Proof. by move=> near_DE far /(_ D E near_DE); exact: (not_close far). Qed.

(** What is drawn from a finite list. *)
Lemma image_listed (T U : eqType) (P : T -> Q) (K : T -> U -> Q) l : uniq l -> law P ->
  (forall x, law (K x)) -> (forall x, x \notin l -> P x = 0) ->
  image P K (fun u => mass (fun x => P x * K x u) l).
Proof.
move=> ul lP lK out u; apply: total_finite => // [x|x /out->]; last by rewrite mul0r.
by apply: mulr_ge0; [exact: law_ge0 | exact: (law_ge0 (lK x))].
Qed.

Theorem convert_example : exists (R : realFieldType) (X : eqType) (near : seq X -> seq X -> Prop)
    (T : eqType) (t d t' d' : R) (M : mechanism X R T),
  has_laws M /\ t <= t' /\ d <= d' /\ private near t d M /\ (*told*) ~ private near 1 0 M.
Proof.
exists Q, nat_eqType, (@add_remove nat), bool_eqType, 2%:R, 0, 3%:R, 1, noisy_bit.
split; first exact: noisy_laws.
do 2!split=> //; split; first exact: noisy_private.
exact: (not_private (u := true) (one_more 1)).
Qed.

(** What is released may be changed by coins. *)
Theorem post_process_example : exists (R : realFieldType) (X : eqType)
    (near : seq X -> seq X -> Prop) (T U : eqType) (t d : R) (M : mechanism X R T)
    (K : T -> U -> R) (N : mechanism X R U),
  0 <= t /\ has_laws M /\ (forall x, law (K x)) /\ (forall D, image (M D) K (N D)) /\
  private near t d M /\ (*told*) ~ private near 1 0 N.
Proof.
pose N D u := mass (fun x => noisy_bit D x * bit x u) [:: true; false].
exists Q, nat_eqType, (@add_remove nat), bool_eqType, bool_eqType, 2%:R, 0, noisy_bit, bit, N.
have lK x : law (bit x) by case: (bit_law x).
split=> //; split; first exact: noisy_laws.
split=> //; split; first by move=> D; apply: image_listed => // [|[]] //; exact: noisy_laws.
split; first exact: noisy_private.
by apply: (not_private (u := true) (one_more 1)); rewrite /N /mass !big_cons !big_nil.
Qed.

(** The second release looks at the first one. *)
Theorem compose_example : exists (R : realFieldType) (X : eqType) (near : seq X -> seq X -> Prop)
    (T U : eqType) (t d t' d' : R) (M : mechanism X R T) (K : T -> mechanism X R U),
  0 <= t /\ 0 <= t' /\ 0 <= d' /\ has_laws M /\ (forall x, has_laws (K x)) /\ private near t d M /\
  (forall x, private near t' d' (K x)) /\
  (*told*) ~ private near t d (fun D => joint (M D) (fun x => K x D)).
Proof.
pose K (x : bool) (D : seq nat) := bit (x && tells D).
exists Q, nat_eqType, (@add_remove nat), bool_eqType, bool_eqType, 2%:R, 0, 2%:R, 0, noisy_bit, K.
do 3!split=> //; split; first exact: noisy_laws.
split; first by move=> x D; case: (bit_law (x && tells D)).
split; first exact: noisy_private.
split; first by move=> x D E _; exact: bit_close.
exact: (not_private (u := (true, true)) (one_more 1)).
Qed.

Theorem group_privacy_example : exists (R : realFieldType) (X : eqType)
    (near : seq X -> seq X -> Prop) (T : eqType) (t d : R) (M : mechanism X R T) (k : nat),
  0 <= t /\ private near t d M /\ (*told*) ~ private (steps near k) 1 0 M.
Proof.
exists Q, nat_eqType, (@add_remove nat), bool_eqType, 2%:R, 0, noisy_bit, 2%N.
split=> //; split; first exact: noisy_private.
have two : steps (@add_remove nat) 2 [:: 1%N; 2%N] [::].
  exists [:: 2%N]; split; first by left; exists [::], 1%N, [:: 2%N].
  by exists [::]; split; first exact: one_more.
exact: (not_private (u := true) two).
Qed.

Theorem change_adjacency_example : exists (R : realFieldType) (X : eqType) (T : eqType) (t d : R)
    (M : mechanism X R T),
  0 <= t /\ private (@add_remove X) t d M /\ (*told*) ~ private (@replace X) 1 0 M.
Proof.
exists Q, nat_eqType, bool_eqType, 2%:R, 0, noisy_bit.
split=> //; split; first exact: noisy_private.
exact: (not_private (u := true) (another 1 0)).
Qed.

(** Records up to 1, and larger ones. *)
Theorem parallel_by_value_example : exists (R : realFieldType) (X : eqType) (L : eqType)
    (labels : seq L) (T : eqType) (M : L -> mechanism X R T) (t d : R) (f : X -> L),
  1 <= t /\ 0 <= d /\ uniq labels /\ (forall l, has_laws (M l)) /\
  (forall l, private (@add_remove X) t d (M l)) /\
  (*told*) ~ private (@add_remove X) 1 0 (by_value labels M f).
Proof.
exists Q, nat_eqType, bool_eqType, [:: false; true], bool_eqType, (fun=> noisy_bit), 2%:R, 0.
exists (fun x => 1 < x)%N; do 3!split=> //; split; first by move=> _; exact: noisy_laws.
split; first by move=> _; exact: noisy_private.
exact: (not_private (u := [:: true; true]) (one_more 1)).
Qed.

Theorem parallel_by_index_example : exists (R : realFieldType) (X : eqType) (L : eqType)
    (labels : seq L) (T : eqType) (M : L -> mechanism X R T) (t d : R) (g : nat -> L),
  1 <= t /\ 0 <= d /\ uniq labels /\ (forall l, has_laws (M l)) /\
  (forall l, private (@replace X) t d (M l)) /\
  (*told*) ~ private (@replace X) 1 0 (by_index labels M g).
Proof.
exists Q, nat_eqType, bool_eqType, [:: false; true], bool_eqType, (fun=> noisy_bit), 2%:R, 0, odd.
do 3!split=> //; split; first by move=> _; exact: noisy_laws.
split; first by move=> _; exact: noisy_private.
exact: (not_private (u := [:: true; true]) (another 1 0)).
Qed.

Theorem of_each_record_add_remove_example : exists (R : realFieldType) (X Y T : eqType) (t d : R)
    (M : mechanism Y R T) (f : X -> Y),
  private (@add_remove Y) t d M /\ (*told*) ~ private (@add_remove X) 1 0 (fun D => M (map f D)).
Proof.
exists Q, bool_eqType, nat_eqType, bool_eqType, 2%:R, 0, noisy_bit, nat_of_bool.
split; first exact: noisy_private.
have near : add_remove [:: true] [::] by left; exists [::], true, [::].
exact: (not_private (u := true) near).
Qed.

Theorem of_each_record_replace_example : exists (R : realFieldType) (X Y T : eqType) (t d : R)
    (M : mechanism Y R T) (f : X -> Y),
  private (@replace Y) t d M /\ (*told*) ~ private (@replace X) 1 0 (fun D => M (map f D)).
Proof.
exists Q, bool_eqType, nat_eqType, bool_eqType, 2%:R, 0, noisy_bit, nat_of_bool.
split; first exact: noisy_private.
have near : replace [:: true] [:: false] by exists [::], true, false, [::].
exact: (not_private (u := true) near).
Qed.

(** A record that is 0 is left out, and every other one is made smaller by 1. *)
Definition smaller (x : nat) : option nat := if x is y.+1 then Some y else None.

Theorem of_kept_records_add_remove_example : exists (R : realFieldType) (X Y T : eqType) (t d : R)
    (M : mechanism Y R T) (f : X -> option Y),
  1 <= t /\ 0 <= d /\ has_laws M /\ private (@add_remove Y) t d M /\
  (*told*) ~ private (@add_remove X) 1 0 (fun D => M (pmap f D)).
Proof.
exists Q, nat_eqType, nat_eqType, bool_eqType, 2%:R, 0, noisy_bit, smaller.
do 2!split=> //; split; first exact: noisy_laws.
split; first exact: noisy_private.
exact: (not_private (u := true) (one_more 2)).
Qed.

Theorem of_kept_records_replace_example : exists (R : realFieldType) (X Y T : eqType) (t d : R)
    (M : mechanism Y R T) (f : X -> option Y),
  1 <= t /\ 0 <= d /\ has_laws M /\ private (@add_remove Y) t d M /\
  (*told*) ~ private (@replace X) 1 0 (fun D => M (pmap f D)).
Proof.
exists Q, nat_eqType, nat_eqType, bool_eqType, 2%:R, 0, noisy_bit, smaller.
do 2!split=> //; split; first exact: noisy_laws.
split; first exact: noisy_private.
exact: (not_private (u := true) (another 2 0)).
Qed.

(** One fair coin for all records: they are passed on, or none of them. *)
Theorem coupled_map_example : exists (R : realFieldType) (X Y T : eqType)
    (near : seq X -> seq X -> Prop) (near' : seq Y -> seq Y -> Prop) (t d : R)
    (S : seq X -> seq Y -> R) (M : mechanism Y R T) (N : mechanism X R T),
  1 <= t /\ 0 <= d /\ has_laws M /\ (forall D, image (S D) M (N D)) /\
  (forall D E, near D E -> exists C, coupling C (S D) (S E) /\
     forall z, 0 < C z -> near' z.1 z.2 \/ z.1 = z.2) /\
  private near' t d M /\ (*told*) ~ private near 1 0 N.
Proof.
pose h : Q := 1 / 2%:R; have h01 : 0 <= h <= 1 by [].
pose N D u := h * noisy_bit D u + (1 - h) * noisy_bit [::] u.
exists Q, nat_eqType, nat_eqType, bool_eqType, (@add_remove nat), (@add_remove nat), 2%:R, 0.
exists (fun D => mixed h D [::]), noisy_bit, N.
do 2!(split; first by []); split; first exact: noisy_laws.
split; first by move=> D u; apply: image_mixed => // E v; exact: bit_ge0.
split; first exact: coupled_together.
split; first exact: noisy_private.
exact: (not_private (u := true) (one_more 1)).
Qed.
