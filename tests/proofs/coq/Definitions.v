(** What the theorems of this folder are about: laws, indistinguishability, datasets, mechanisms.

    These definitions are to be read and believed, and so are those of other files that a statement
    names; Coq checks everything else. Numbers are in any
    ordered field, so that examples compute over the rationals. [t] stands for e^epsilon, [d] for
    delta. A law may be of part of the mass (a release that went well), and of countably many
    outputs: nothing is summed but finite lists, and a total is a least upper bound of such sums. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum.
Import GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Laws.
Variable R : realFieldType.

(** The mass that [P] puts on a finite list of outputs. *)
Definition mass (T : eqType) (P : T -> R) (s : seq T) : R := \sum_(x <- s) P x.

(** A law or a part of one: no output has negative mass, and no finite set more than one. *)
Definition law (T : eqType) (P : T -> R) : Prop :=
  (forall x, 0 <= P x) /\ forall s, uniq s -> mass P s <= 1.

(** [m] is the sum of a nonnegative [f] over all of [T]. *)
Definition total (T : eqType) (f : T -> R) (m : R) : Prop :=
  (forall s, uniq s -> mass f s <= m) /\
  forall u, (forall s, uniq s -> mass f s <= u) -> m <= u.

(** (t, d)-indistinguishable, in this direction. *)
Definition close (T : eqType) (t d : R) (P Q : T -> R) : Prop :=
  forall s, uniq s -> mass P s <= t * mass Q s + d.

(** [N] is the law of what the randomized map [K] makes of a draw of [P]. *)
Definition image (T U : eqType) (P : T -> R) (K : T -> U -> R) (N : U -> R) : Prop :=
  forall u, total (fun x => P x * K x u) (N u).

(** A draw [x] of [P] beside a draw of [K x]: two releases, the second chosen after the first. *)
Definition joint (T U : eqType) (P : T -> R) (K : T -> U -> R) (z : T * U) : R :=
  P z.1 * K z.1 z.2.

(** Independent draws, one of each law of the list. *)
Fixpoint product (T : eqType) (Ps : seq (T -> R)) (xs : seq T) : R :=
  match Ps, xs with
  | [::], [::] => 1
  | P :: Qs, x :: ys => P x * product Qs ys
  | _, _ => 0
  end.

End Laws.

Section Datasets.
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

Variable R : realFieldType.

(** A law of outputs for each dataset. *)
Definition mechanism (T : eqType) := seq X -> T -> R.

Definition has_laws (T : eqType) (M : mechanism T) : Prop := forall D, law (M D).

(** The claim: on datasets that are [near], the mechanism's laws are (t, d)-indistinguishable. *)
Definition private (near : seq X -> seq X -> Prop) (T : eqType) (t d : R) (M : mechanism T) : Prop :=
  forall D E, near D E -> close t d (M D) (M E).

End Datasets.
