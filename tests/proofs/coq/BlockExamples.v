(** Examples of blocks: by labels that are drawn, and asked in turn. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum ssrint rat order.
Require Import Definitions Mechanisms Sums Transfer Products Rules Labels Chained Twins Examples.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Let Q : realFieldType := [realFieldType of rat].

(** All lists of so many labels. *)
Fixpoint lists (n : nat) : seq (seq bool) :=
  if n is k.+1
  then [seq true :: ls | ls <- lists k] ++ [seq false :: ls | ls <- lists k] else [:: [::]].

Lemma lists_uniq n : uniq (lists n).
Proof.
elim: n => //= n IH; rewrite cat_uniq !map_inj_uniq ?IH; try by move=> ls ls' [].
by rewrite andbT; apply/hasPn => _ /mapP[ls _ ->]; apply/mapP => -[].
Qed.

Lemma in_lists ls : ls \in lists (size ls).
Proof.
by elim: ls => //= -[] ls IH; rewrite mem_cat; apply/orP; [left | right]; exact: map_f.
Qed.

(** A fair coin for each record. *)
Definition fair (label : bool) : Q := 1 / 2%:R.

Lemma fair_law : law fair /\ total fair 1.
Proof.
have tot : total fair 1.
  have -> : 1 = mass fair [:: true; false] by rewrite /mass !big_cons big_nil.
  by apply: total_finite => // -[].
by split=> //; split; [|exact: tot.1].
Qed.

(** What is made of labels that are drawn by fair coins. *)
Definition labelled_by_coins (T : eqType) (K : seq nat -> seq bool -> T -> Q) (D : seq nat)
    (u : T) : Q :=
  mass (fun ls => drawn fair (size D) ls * K D ls u) (lists (size D)).

Lemma drawn_by_coins (T : eqType) (K : seq nat -> seq bool -> T -> Q) D :
  (forall ls, law (K D ls)) -> image (drawn fair (size D)) (K D) (labelled_by_coins K D).
Proof.
move=> lK; apply: image_listed => // [||ls]; first exact: lists_uniq.
  by apply: drawn_law; case: fair_law.
by apply: contraNeq => /drawn_size <-; exact: in_lists.
Qed.

Definition both : seq bool := [:: false; true].
Definition of_labels := labelled_by_coins (with_labels both (fun=> noisy_bit)).

Lemma of_labels_drawn : by_labels both (fun=> noisy_bit) fair of_labels.
Proof.
move=> D; apply: drawn_by_coins => ls; apply: with_labels_law => _; exact: noisy_laws.
Qed.

Theorem parallel_by_labels_add_remove_example : exists (R : realFieldType) (X L T : eqType)
    (labels : seq L) (M : L -> mechanism X R T) (t d : R) (A : L -> R)
    (N : mechanism X R (seq_eqType T)),
  1 <= t /\ 0 <= d /\ law A /\ total A 1 /\ uniq labels /\ (forall l, has_laws (M l)) /\
  (forall l, private (@add_remove X) t d (M l)) /\ by_labels labels M A N /\
  (*told*) ~ private (@add_remove X) 1 0 N.
Proof.
have [lA tA] := fair_law.
exists Q, nat_eqType, bool_eqType, bool_eqType, both, (fun=> noisy_bit), 2%:R, 0, fair, of_labels.
do 5!(split; first by []); split; first by move=> _; exact: noisy_laws.
split; first by move=> _; exact: noisy_private.
split; first exact: of_labels_drawn.
apply: (not_private (u := [:: true; true]) (one_more 1)).
by rewrite /of_labels /labelled_by_coins /mass /= !big_cons !big_nil.
Qed.

Theorem parallel_by_labels_replace_example : exists (R : realFieldType) (X L T : eqType)
    (labels : seq L) (M : L -> mechanism X R T) (t d : R) (A : L -> R)
    (N : mechanism X R (seq_eqType T)),
  1 <= t /\ 0 <= d /\ law A /\ uniq labels /\ (forall l, has_laws (M l)) /\
  (forall l, private (@replace X) t d (M l)) /\ by_labels labels M A N /\
  (*told*) ~ private (@replace X) 1 0 N.
Proof.
have [lA _] := fair_law.
exists Q, nat_eqType, bool_eqType, bool_eqType, both, (fun=> noisy_bit), 2%:R, 0, fair, of_labels.
do 4!(split; first by []); split; first by move=> _; exact: noisy_laws.
split; first by move=> _; exact: noisy_private.
split; first exact: of_labels_drawn.
apply: (not_private (u := [:: true; true]) (another 1 0)).
by rewrite /of_labels /labelled_by_coins /mass /= !big_cons !big_nil.
Qed.

(** Asked whether its own bit is the same as what the first block released. *)
Definition in_turn (label : bool) (earlier : seq bool) (D : seq nat) : bool -> Q :=
  bit (tells D (+) head false earlier).

Lemma in_turn_laws label earlier : has_laws (in_turn label earlier).
Proof. by move=> D; case: (bit_law (tells D (+) head false earlier)). Qed.

Lemma in_turn_private near label earlier : private near 2%:R 0 (in_turn label earlier).
Proof. by move=> D E _; exact: bit_close. Qed.

Lemma in_turn_reads :
  exists l earlier earlier' D x, in_turn l earlier D x != in_turn l earlier' D x.
Proof. by exists true, [:: true], [:: false], [::], true. Qed.

Theorem chained_by_value_example : exists (R : realFieldType) (X L T : eqType)
    (M : L -> seq T -> mechanism X R T),
  (forall l earlier, has_laws (M l earlier)) /\ exists (t d : R) (labels : seq L) (f : X -> L),
  1 <= t /\ 0 <= d /\ uniq labels /\
  (forall l earlier, private (@add_remove X) t d (M l earlier)) /\
  (*told*) (exists l earlier earlier' D x, M l earlier D x != M l earlier' D x) /\
  ~ private (@add_remove X) 1 0
      (fun D => chain M labels [::] (fun l => [seq x <- D | f x == l])).
Proof.
exists Q, nat_eqType, bool_eqType, bool_eqType, in_turn; split; first exact: in_turn_laws.
exists 2%:R, 0, both, (fun x => 1 < x)%N; do 3!(split; first by []).
split; first exact: in_turn_private.
split; first exact: in_turn_reads.
exact: (not_private (u := [:: true; true]) (one_more 1)).
Qed.

Theorem chained_by_index_example : exists (R : realFieldType) (X L T : eqType)
    (M : L -> seq T -> mechanism X R T),
  (forall l earlier, has_laws (M l earlier)) /\ exists (t d : R) (labels : seq L) (g : nat -> L),
  1 <= t /\ 0 <= d /\ uniq labels /\
  (forall l earlier, private (@replace X) t d (M l earlier)) /\
  (*told*) (exists l earlier earlier' D x, M l earlier D x != M l earlier' D x) /\
  ~ private (@replace X) 1 0 (fun D => chain M labels [::] (fun l => block_at g l D)).
Proof.
exists Q, nat_eqType, bool_eqType, bool_eqType, in_turn; split; first exact: in_turn_laws.
exists 2%:R, 0, both, odd; do 3!(split; first by []).
split; first exact: in_turn_private.
split; first exact: in_turn_reads.
exact: (not_private (u := [:: true; true]) (another 1 0)).
Qed.

Definition in_turn_by_labels :=
  labelled_by_coins (fun D ls => chain in_turn both [::] (fun l => labelled l ls D)).

Lemma in_turn_drawn : chained_by_labels in_turn both fair in_turn_by_labels.
Proof.
move=> D; apply: drawn_by_coins => ls; apply: chain_law; exact: in_turn_laws.
Qed.

Theorem chained_by_labels_add_remove_example : exists (R : realFieldType) (X L T : eqType)
    (M : L -> seq T -> mechanism X R T),
  (forall l earlier, has_laws (M l earlier)) /\ exists (t d : R) (labels : seq L) (A : L -> R)
    (N : mechanism X R (seq_eqType T)),
  1 <= t /\ 0 <= d /\ uniq labels /\
  (forall l earlier, private (@add_remove X) t d (M l earlier)) /\ law A /\ total A 1 /\
  chained_by_labels M labels A N /\
  (*told*) (exists l earlier earlier' D x, M l earlier D x != M l earlier' D x) /\
  ~ private (@add_remove X) 1 0 N.
Proof.
have [lA tA] := fair_law.
exists Q, nat_eqType, bool_eqType, bool_eqType, in_turn; split; first exact: in_turn_laws.
exists 2%:R, 0, both, fair, in_turn_by_labels; do 3!(split; first by []).
split; first exact: in_turn_private.
do 2!(split; first by []); split; first exact: in_turn_drawn.
split; first exact: in_turn_reads.
apply: (not_private (u := [:: true; true]) (one_more 1)).
by rewrite /in_turn_by_labels /labelled_by_coins /mass /= !big_cons !big_nil.
Qed.

Theorem chained_by_labels_replace_example : exists (R : realFieldType) (X L T : eqType)
    (M : L -> seq T -> mechanism X R T),
  (forall l earlier, has_laws (M l earlier)) /\ exists (t d : R) (labels : seq L) (A : L -> R)
    (N : mechanism X R (seq_eqType T)),
  1 <= t /\ 0 <= d /\ uniq labels /\
  (forall l earlier, private (@replace X) t d (M l earlier)) /\ law A /\
  chained_by_labels M labels A N /\
  (*told*) (exists l earlier earlier' D x, M l earlier D x != M l earlier' D x) /\
  ~ private (@replace X) 1 0 N.
Proof.
have [lA _] := fair_law.
exists Q, nat_eqType, bool_eqType, bool_eqType, in_turn; split; first exact: in_turn_laws.
exists 2%:R, 0, both, fair, in_turn_by_labels; do 3!(split; first by []).
split; first exact: in_turn_private.
split; first by []. split; first exact: in_turn_drawn.
split; first exact: in_turn_reads.
apply: (not_private (u := [:: true; true]) (another 1 0)).
by rewrite /in_turn_by_labels /labelled_by_coins /mass /= !big_cons !big_nil.
Qed.
