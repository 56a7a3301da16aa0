(** Maps of the records: each alone, with records left out, or with coins whose results can be coupled. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum order.
From mathcomp Require Import ring.
Require Import Definitions Mechanisms Sums Transfer Products Rules.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Maps.
Variables (R : realFieldType) (X Y T : eqType).
Implicit Types (t d : R) (M : mechanism Y R T).

Lemma private_or_equal (Z : eqType) near t d (M : mechanism Z R T) D E : 1 <= t -> 0 <= d -> has_laws M ->
  private near t d M -> near D E \/ D = E -> close t d (M D) (M E).
Proof.
move=> t1 d0 lM pM [/pM//|->]; apply: (@close_weaken R T t 0) => //; first exact: law_ge0.
by apply: close_refl => //; exact: law_ge0.
Qed.

Theorem of_each_record_add_remove t d M (f : X -> Y) :
  private (@add_remove Y) t d M -> private (@add_remove X) t d (fun D => M (map f D)).
Proof.
have half D E : removed D E -> removed (map f D) (map f E).
  by case=> b [x [a [-> ->]]]; exists (map f b), (f x), (map f a); rewrite !map_cat.
by move=> pM D E [/half|/half] near; apply: pM; [left | right].
Qed.

Theorem of_each_record_replace t d M (f : X -> Y) :
  private (@replace Y) t d M -> private (@replace X) t d (fun D => M (map f D)).
Proof.
move=> pM D E [b [x [y [a [-> ->]]]]]; apply: pM.
by exists (map f b), (f x), (f y), (map f a); rewrite !map_cat.
Qed.

(** [f] maps a record or leaves it out. *)
Lemma kept_removed (f : X -> option Y) D E : removed D E ->
  removed (pmap f D) (pmap f E) \/ pmap f D = pmap f E.
Proof.
case=> b [x [a [-> ->]]]; rewrite !pmap_cat /=; case: (f x) => [y|]; last by right.
by left; exists (pmap f b), y, (pmap f a).
Qed.

Theorem of_kept_records_add_remove t d M (f : X -> option Y) :
  1 <= t -> 0 <= d -> has_laws M ->
  private (@add_remove Y) t d M -> private (@add_remove X) t d (fun D => M (pmap f D)).
Proof.
move=> t1 d0 lM pM D E near_DE; apply: (private_or_equal t1 d0 lM pM).
by case: near_DE => /(kept_removed f)[?|->]; [left; left | right | left; right | right].
Qed.

Theorem of_kept_records_replace t d M (f : X -> option Y) :
  1 <= t -> 0 <= d -> has_laws M ->
  private (@add_remove Y) t d M -> private (@replace X) (t * t) (d + t * d) (fun D => M (pmap f D)).
Proof.
move=> t1 d0 lM pM; apply: change_adjacency; first exact: le_trans ler01 t1.
exact: of_kept_records_add_remove.
Qed.

(** [S D] is the law of what a map of the records, with coins of its own, makes of [D]. *)
Theorem coupled_map (near : seq X -> seq X -> Prop) (near' : seq Y -> seq Y -> Prop) t d
    (S : seq X -> seq Y -> R) M (N : mechanism X R T) :
  1 <= t -> 0 <= d -> has_laws M -> (forall D, image (S D) M (N D)) ->
  (forall D E, near D E -> exists C, coupling C (S D) (S E) /\
     forall z, 0 < C z -> near' z.1 z.2 \/ z.1 = z.2) ->
  private near' t d M -> private near t d N.
Proof.
move=> t1 d0 lM SN coupled pM D E near_DE; have [C [CS near_C]] := coupled D E near_DE.
apply: (close_coupling (le_trans ler01 t1) d0 lM CS (SN D) (SN E)) => z /near_C near_z.
exact: (private_or_equal t1 d0 lM pM).
Qed.

End Maps.
