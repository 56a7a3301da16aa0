(** Rare events: one that the output decides costs d, one hidden in the coins costs (1 + t) times. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum order.
From mathcomp Require Import ring.
Require Import Definitions Mechanisms Sums.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Events.
Variable R : realFieldType.
Implicit Types (t d e : R).

(** A law is within [e] of a part of it, or of another law, on every finite set. *)
Definition within (T : eqType) e (P Q : T -> R) : Prop :=
  forall s, uniq s -> mass P s <= mass Q s + e.

Lemma mass_where_good (T : eqType) (good : T -> bool) (P : T -> R) s :
  mass P s = mass (where_good good P) s + mass (where_good (fun x => ~~ good x) P) s.
Proof.
rewrite /mass -big_split /=; apply: eq_bigr => x _.
by rewrite /where_good; case: (good x); rewrite ?addr0 ?add0r.
Qed.

Lemma where_good_le (T : eqType) (good : T -> bool) (P : T -> R) s :
  (forall x, 0 <= P x) -> mass (where_good good P) s <= mass P s.
Proof.
by move=> P0; apply: ler_sum => x _; rewrite /where_good; case: (good x).
Qed.

(** The output decides the event: the same set on both sides. *)
Lemma close_good (T : eqType) (good : T -> bool) t d e (P Q : T -> R) :
  0 <= t -> (forall x, 0 <= Q x) ->
  (forall s, uniq s -> mass (where_good (fun x => ~~ good x) P) s <= e) ->
  close t d (where_good good P) (where_good good Q) -> close t (d + e) P Q.
Proof.
move=> t0 Q0 rare PQ s us; rewrite (mass_where_good good).
apply: le_trans (ler_add (PQ s us) (rare s us)) _.
rewrite -addrA ler_add2r; apply: ler_wpmul2l => //; exact: where_good_le.
Qed.

(** The coins decide it: another mechanism, with the claim, that differs from this one where it fails. *)
Lemma close_coupled (T : eqType) t d e (P Q P' Q' : T -> R) :
  0 <= t -> within e P P' -> within e Q' Q -> close t d P' Q' -> close t (d + (1 + t) * e) P Q.
Proof.
move=> t0 PP QQ PQ s us; apply: le_trans (PP s us) _.
have -> : t * mass Q s + (d + (1 + t) * e) = t * (mass Q s + e) + d + e by ring.
rewrite ler_add2r; apply: le_trans (PQ s us) _.
by rewrite ler_add2r; apply: ler_wpmul2l => //; exact: QQ.
Qed.

End Events.
