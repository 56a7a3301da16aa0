(** What claims mean: laws, neighbors, privacy, hypotheses, Gaussian pairs, stable filters.

    To be read and believed, as is what Mechanisms.v says is released; Coq checks everything else.
    Numbers are of any ordered field; [t] is e^epsilon, [d] delta, [m] mu^2. A law may be of part of the
    mass, and of countably many outputs: only finite lists are summed, a total is a least upper bound. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum.
Import GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Laws.
Variable R : realFieldType.
Implicit Types (t a b d e : R).

(** The mass that [P] puts on a finite list of outputs. *)
Definition mass (T : eqType) (P : T -> R) (s : seq T) : R := \sum_(x <- s) P x.

(** A law or a part of one: no output has negative mass, and no finite set more than one. *)
Definition law (T : eqType) (P : T -> R) : Prop :=
  (forall x, 0 <= P x) /\ forall s, uniq s -> mass P s <= 1.

(** [m] is the sum of a nonnegative [f] over all of [T]. *)
Definition total (T : eqType) (f : T -> R) (m : R) : Prop :=
  (forall s, uniq s -> mass f s <= m) /\
  forall u, (forall s, uniq s -> mass f s <= u) -> m <= u.

(** (t, d)-indistinguishable, in this direction; and with weights [a], [b] on the two laws. *)
Definition close (T : eqType) t d (P Q : T -> R) : Prop :=
  forall s, uniq s -> mass P s <= t * mass Q s + d.
Definition tested (T : eqType) a b d (P Q : T -> R) : Prop :=
  forall s, uniq s -> a * mass P s <= b * mass Q s + d.

(** A pair of laws that is no easier to tell apart than another, by any weighted test. *)
Definition dominated (T U : eqType) (P Q : T -> R) (A B : U -> R) : Prop :=
  forall a b d, 0 <= a -> 0 <= b -> tested a b d A B -> tested a b d P Q.

(** [N] is the law of what the randomized map [K] makes of a draw of [P]. *)
Definition image (T U : eqType) (P : T -> R) (K : T -> U -> R) (N : U -> R) : Prop :=
  forall u, total (fun x => P x * K x u) (N u).

(** A law of pairs whose first entries have law [A] and whose second ones have law [B]. *)
Definition coupling (Y : eqType) (C : Y * Y -> R) (A B : Y -> R) : Prop :=
  law C /\ image C (fun z y => (z.1 == y)%:R) A /\ image C (fun z y => (z.2 == y)%:R) B.

(** The part of a law where [good] holds. *)
Definition where_good (T : eqType) (good : T -> bool) (P : T -> R) (x : T) : R :=
  if good x then P x else 0.

(** Drawn together they differ with probability at most [e]. *)
Definition rarely_differ (T : eqType) e (C : T * T -> R) : Prop :=
  forall s, uniq s -> mass (where_good (fun z => z.1 != z.2) C) s <= e.

(** [gaussian m A B]: what some map to finitely many cells makes of N(0, 1) and N(mu, 1). *)
Variable gaussian : R -> (nat -> R) -> (nat -> R) -> Prop.

(** [A], [B] can be read off [C], [D]: every set of cells is one of finer cells. *)
Definition coarser (A B C D : nat -> R) : Prop :=
  forall s, uniq s -> exists l, uniq l /\ mass A s = mass C l /\ mass B s = mass D l.
Definition all_tested m a b d : Prop := forall A B, gaussian m A B -> tested a b d A B.

(** No easier to tell apart than N(0, 1) and N(mu, 1). *)
Definition gdp (T : eqType) m (P Q : T -> R) : Prop :=
  forall a b d, 0 <= a -> 0 <= b -> all_tested m a b d -> tested a b d P Q.

(** The same of a part of the first law that lacks at most [e] of its mass. *)
Definition cut (T : eqType) e (P P' : T -> R) : Prop :=
  (forall x, 0 <= P' x <= P x) /\ forall s, uniq s -> mass P s <= mass P' s + e.
Definition approximate_gdp (T : eqType) m e (P Q : T -> R) : Prop :=
  exists P', cut e P P' /\ gdp m P' Q.
End Laws.

Section Neighbors.
Variable X : Type.

(** [E] is [D] without one record, at any place. *)
Definition removed (D E : seq X) : Prop :=
  exists before x after, D = before ++ x :: after /\ E = before ++ after.
Definition add_remove (D E : seq X) : Prop := removed D E \/ removed E D.

(** Equally long, and at most the records of one place differ. *)
Definition replace (D E : seq X) : Prop :=
  exists before x y after, D = before ++ x :: after /\ E = before ++ y :: after.

(** [k] steps of [near] lead from [D] to [E]. *)
Fixpoint steps (near : seq X -> seq X -> Prop) (k : nat) (D E : seq X) : Prop :=
  if k is l.+1 then exists F, near D F /\ steps near l F E else D = E.
End Neighbors.

(** A law of outputs for each dataset. *)
Definition mechanism (X : Type) (R : realFieldType) (T : eqType) := seq X -> T -> R.
Definition has_laws X R (T : eqType) (M : mechanism X R T) : Prop := forall D, law (M D).

(** The claim: on datasets that are [near], the mechanism's laws are (t, d)-indistinguishable. *)
Definition private X R (near : seq X -> seq X -> Prop) (T : eqType) t d (M : mechanism X R T) : Prop :=
  forall D E : seq X, near D E -> close t d (M D) (M E).

Section Hypotheses.
Variables (R : realFieldType) (X : eqType).
Implicit Types (near : seq X -> seq X -> Prop) (t d e r : R).

(** For each two datasets, the outputs at which it holds. It may not look at the outputs (a bound on
    a number of the datasets), or not at the datasets (a released number, a gate). *)
Definition hypothesis (T : eqType) := seq X -> seq X -> T -> bool.
Definition every (T : eqType) (H : seq (hypothesis T)) : hypothesis T :=
  fun D E x => all (fun h : hypothesis T => h D E x) H.

(** The claim is about the outputs at which all hypotheses hold, the same on both sides. *)
Definition under (T : eqType) (H : seq (hypothesis T)) near t d (M : mechanism X R T) : Prop :=
  forall D E, near D E -> close t d (where_good (every H D E) (M D)) (where_good (every H D E) (M E)).

(** A hypothesis fails rarely: with probability at most [e] where the others hold, on each side. *)
Definition rarely_fails (T : eqType) (h : hypothesis T) (H : seq (hypothesis T)) near e
    (M : mechanism X R T) : Prop :=
  forall D E, near D E -> forall s, uniq s ->
    mass (where_good (fun x => every H D E x && ~~ h D E x) (M D)) s <= e.

(** The claim is about laws that each side's own can be drawn together with, so that they rarely differ. *)
Definition claimed_of_coupled (T : eqType) (H : seq (hypothesis T)) near t d e (M : mechanism X R T) : Prop :=
  forall D E, near D E -> exists P Q,
    (exists C, coupling C (M D) P /\ rarely_differ e C) /\
    (exists C, coupling C Q (M E) /\ rarely_differ e C) /\
    close t d (where_good (every H D E) P) (where_good (every H D E) Q).

(** All losses lie in an interval whose length is the logarithm of [r]. *)
Definition bounded_range near (T : eqType) r (M : mechanism X R T) : Prop :=
  forall D E, near D E -> exists c, 0 < c /\ forall x, M D x <= c * M E x /\ c * M E x <= r * M D x.

(** What is friendly remains so without some records; neighbors, one record apart, are both friendly. *)
Definition hereditary (friendly : seq X -> Prop) : Prop :=
  forall D E, friendly D -> subseq E D -> friendly E.
Definition friendly_near (friendly : seq X -> Prop) (D E : seq X) : Prop :=
  friendly D /\ friendly E /\ add_remove D E.

(** A record with its chance of being kept on each side; None: that side lacks it. *)
Definition sided := (X * (option R * option R))%type.
Definition coins_of (side : option R * option R -> option R) (moves : seq sided) : seq (X * R) :=
  pmap (fun m => omap (pair m.1) (side m.2)) moves.

(** The filter's stability: the records of neighbors, side by side, are kept with chances that move by
    at most [moved] in all, and on each side all sets that may be kept are friendly. *)
Definition stable near (friendly : seq X -> Prop) (moved : R) (coins : seq X -> seq (X * R)) : Prop :=
  (forall D, (forall c, c \in coins D -> 0 <= c.2 <= 1) /\
     forall kept, subseq kept [seq c.1 | c <- coins D & 0 < c.2] -> friendly kept) /\
  forall D E, near D E -> exists moves, coins D = coins_of fst moves /\ coins E = coins_of snd moves /\
    \sum_(m <- moves) `|odflt 0 m.2.1 - odflt 0 m.2.2| <= moved.
End Hypotheses.
