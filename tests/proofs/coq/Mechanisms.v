(** What is released: the mechanisms, maps, filters and sessions that statements name.

    To be read beside the code that they describe, and to be believed, as Definitions.v is. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum ssrint order.
Require Import Definitions.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Laws.
Variable R : realFieldType.

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

(** [x0], always. *)
Definition certain (T : eqType) (x0 x : T) : R := (x == x0)%:R.

(** d, t d, t^2 d, ... added up. *)
Definition group_delta (t d : R) k : R := d * \sum_(i < k) t ^+ i.
End Laws.

Section Blocks.
Variables (R : realFieldType) (X L : eqType) (labels : seq L) (T : eqType) (M : L -> mechanism X R T).

(** A public function of the record says its block. *)
Definition by_value (f : X -> L) : mechanism X R (seq_eqType T) :=
  fun D => product [seq M l [seq x <- D | f x == l] | l <- labels].

(** A public function of the place says the block. *)
Definition block_at (g : nat -> L) (l : L) (D : seq X) : seq X :=
  [seq z.2 | z <- zip (iota 0 (size D)) D & g z.1 == l].
Definition by_index (g : nat -> L) : mechanism X R (seq_eqType T) :=
  fun D => product [seq M l (block_at g l D) | l <- labels].
End Blocks.

Section Labels.
Variables (R : realFieldType) (X L T : eqType).

(** [n] labels, each of law [A]; and the records that have this one. *)
Definition drawn (A : L -> R) (n : nat) : seq L -> R := product (nseq n A).
Definition labelled (l : L) (ls : seq L) (D : seq X) : seq X := [seq z.2 | z <- zip ls D & z.1 == l].

(** [N]: labels are drawn, and not released; then every block has its mechanism. *)
Definition with_labels (labels : seq L) (M : L -> mechanism X R T) (D : seq X) (ls : seq L) : seq T -> R :=
  product [seq M l (labelled l ls D) | l <- labels].
Definition by_labels (labels : seq L) (M : L -> mechanism X R T) (A : L -> R)
    (N : mechanism X R (seq_eqType T)) : Prop :=
  forall D, image (drawn A (size D)) (with_labels labels M D) (N D).

(** One block after the other; [earlier] is what those before released. *)
Variable M : L -> seq T -> mechanism X R T.
Fixpoint chain (labels : seq L) (earlier : seq T) (blocks : L -> seq X) (xs : seq T) : R :=
  match labels, xs with
  | [::], [::] => 1
  | l :: rest, x :: ys => M l earlier (blocks l) x * chain rest (rcons earlier x) blocks ys
  | _, _ => 0
  end.
Definition chained_by_labels (labels : seq L) (A : L -> R) (N : mechanism X R (seq_eqType T)) : Prop :=
  forall D, image (drawn A (size D)) (fun ls => chain labels [::] (fun l => labelled l ls D)) (N D).
End Labels.

(** A hypothesis about the first of two releases, and about the second, as ones about both. *)
Definition of_first (X T U : eqType) (h : hypothesis X T) : hypothesis X (prod_eqType T U) :=
  fun D E z => h D E z.1.
Definition of_second (X T U : eqType) (h : T -> hypothesis X U) : hypothesis X (prod_eqType T U) :=
  fun D E z => h z.1 D E z.2.

Section Filters.
Variables (R : realFieldType) (X : eqType).

(** Each record is kept with the chance beside it, on its own; then the mechanism runs on what is kept. *)
Fixpoint filtered (T : eqType) (coins : seq (X * R)) (M : mechanism X R T) : T -> R :=
  match coins with
  | [::] => M [::]
  | (x, p) :: rest => fun u =>
      p * filtered rest (fun kept => M (x :: kept)) u + (1 - p) * filtered rest M u
  end.

(** The basic filter: a record with k friends, itself perhaps among them, is kept with chance
    max(0, 2 k - n) / n. *)
Variable friends : rel X.
Definition degree (D : seq X) (x : X) : nat := count (friends x) D.
Definition basic_chance (k n : nat) : R := (2 * k - n)%N%:R / n%:R.
Definition basic_coins (D : seq X) : seq (X * R) :=
  [seq (x, basic_chance (degree D x) (size D)) | x <- D].

(** Any two records have a common friend, anywhere. *)
Definition share_friends (S : seq X) : Prop :=
  forall x y, x \in S -> y \in S -> exists z, friends x z && friends y z.
End Filters.

Section KeptByScores.
Variables (R : realFieldType) (gaussian : R -> (nat -> R) -> (nat -> R) -> Prop) (X : eqType).

(** The mechanism on what is kept: a filter lists what it may keep, and how likely that is. *)
Definition on_kept (T : eqType) (keep : seq X -> seq (R * seq X)) (M : mechanism X R T) : mechanism X R T :=
  fun D u => \sum_(c <- keep D) c.1 * M c.2 u.

(** Two lists of chances and kept records are of one law: every function has the same mean. *)
Definition same_law (cs cs' : seq (R * seq X)) : Prop :=
  forall F : seq X -> R, \sum_(c <- cs) c.1 * F c.2 = \sum_(c <- cs') c.1 * F c.2.

(** What may be kept of two neighbors, side by side: the chances on the left and on the right, the kept
    records on the left and on the right, and whether nobody is kept who has too few friends. *)
Definition outcome (X : Type) := ((R * R) * (seq X * seq X) * bool)%type.
Definition on_left (o : outcome X) : R * seq X := (o.1.1.1, o.1.2.1).
Definition on_right (o : outcome X) : R * seq X := (o.1.1.2, o.1.2.2).
Definition good (o : outcome X) : bool := o.2.

(** The law of the place in a list of chances. *)
Definition chance (ps : seq R) (i : nat) : R := nth 0 ps i.

(** The scores of the others move by [m] (mu^2); where nobody is kept who has too few friends, which fails
    rarely, what is kept is [alike] on the two sides. *)
Definition kept_alike (alike : seq X -> seq X -> Prop) (m e : R)
    (keep : seq X -> seq (R * seq X)) (D E : seq X) : Prop :=
  exists os : seq (outcome X),
    same_law (keep D) [seq on_left o | o <- os] /\ same_law (keep E) [seq on_right o | o <- os] /\
    law (chance [seq o.1.1.1 | o <- os]) /\ law (chance [seq o.1.1.2 | o <- os]) /\
    \sum_(o <- os | ~~ good o) o.1.1.1 <= e /\
    gdp gaussian m (chance [seq o.1.1.1 | o <- os]) (chance [seq o.1.1.2 | o <- os]) /\
    forall o, o \in os -> good o -> alike o.1.2.1 o.1.2.2.
End KeptByScores.

Section AboveThreshold.
Variable R : realFieldType.

(** Masses proportional to q^|z|, with q = e^(-1 / scale). *)
Definition discrete_laplace (q : R) (p : int -> R) : Prop :=
  0 < q < 1 /\ law p /\ exists c, forall z, p z = c * q ^+ `|z|%N.

(** [above w] is the probability that the noise is [w] or more. *)
Definition tail (p : int -> R) (above : int -> R) : Prop :=
  forall w, total (fun y => if w <= y then p y else 0) (above w).

(** The probabilities of the reports, from those that each query is above: the place of the first that
    is, or the number of queries for none. *)
Fixpoint first_above (chances : seq R) (k : nat) : R :=
  match chances, k with
  | [::], 0%N => 1
  | chance :: _, 0%N => chance
  | chance :: rest, k'.+1 => (1 - chance) * first_above rest k'
  | [::], _ => 0
  end.

(** Threshold [z] and queries [values]: query + noise >= threshold. *)
Definition report (above : int -> R) (values : seq int) (z : int) : nat -> R :=
  first_above [seq above (z - v) | v <- values].

(** Each query moves by at most [moved], and their number is public; or all move one way. *)
Variables (X : eqType) (queries : seq X -> seq int).
Definition move_by (near : seq X -> seq X -> Prop) (moved : nat) : Prop :=
  forall D E, near D E -> size (queries D) = size (queries E) /\
    forall i, (`|nth 0 (queries D) i - nth 0 (queries E) i| <= moved%:Z).
Definition move_one_way (near : seq X -> seq X -> Prop) (moved : nat) : Prop :=
  forall D E, near D E -> size (queries D) = size (queries E) /\
    ((forall i, 0 <= nth 0 (queries E) i - nth 0 (queries D) i <= moved%:Z) \/
     (forall i, 0 <= nth 0 (queries D) i - nth 0 (queries E) i <= moved%:Z)).
End AboveThreshold.

Section Noise.
Variable R : realFieldType.

(** Masses proportional to weights of finite, positive total. *)
Definition by_weight (T : eqType) (w : T -> R) (P : T -> R) : Prop :=
  (forall x, 0 <= w x) /\ exists W, 0 < W /\ total w W /\ forall x, P x = w x / W.

(** One of [options]: the true one with weight [t], every other one with weight 1. *)
Definition response (t : R) (options : seq nat) (truth x : nat) : R :=
  if x \in options then (if x == truth then t else 1) / (t + (size options).-1%:R) else 0.

(** Integers, each with noise of its own. *)
Definition noisy (p : int -> R) (values : seq int) : seq int -> R :=
  product [seq (fun u => p (u - v)) | v <- values].
Definition hamming (vs ws : seq nat) : nat := \sum_(z <- zip vs ws) (z.1 != z.2).
Definition l1 (vs ws : seq int) : nat := \sum_(z <- zip vs ws) `|z.1 - z.2|%N.
End Noise.

Section Requests.
Variables (R : realFieldType) (X T : eqType) (near : seq X -> seq X -> Prop).

(** What an analyst asks: the cost of a request is fixed when it is chosen, after the earlier answers. *)
Inductive requests : Type :=
| Stop
| Ask (t d : R) (M : mechanism X R T) (next : T -> requests).

(** The law of all answers, for each dataset. *)
Fixpoint answers (asked : requests) (D : seq X) (xs : seq T) : R :=
  match asked, xs with
  | Stop, [::] => 1
  | Ask _ _ M next, x :: rest => M D x * answers (next x) D rest
  | _, _ => 0
  end.

(** On every path the product of all t is at most [t], the sum of all d at most [d]. *)
Fixpoint within_limits (t d : R) (asked : requests) : Prop :=
  match asked with
  | Stop => 1 <= t /\ 0 <= d
  | Ask t1 d1 M next =>
      1 <= t1 /\ 0 <= d1 /\ has_laws M /\ private near t1 d1 M /\
      forall x, within_limits (t / t1) (d - d1) (next x)
  end.
End Requests.

Section Sessions.
Variables (R : realFieldType) (gaussian : R -> (nat -> R) -> (nat -> R) -> Prop).

(** The laws of answers for two neighbors, each request chosen after the earlier ones. [P'] is what is
    left of [P] where the additive part is cut off. *)
Inductive session (T : Type) : Type :=
| Done
| Step (m e : R) (P P' Q : T -> R) (next : T -> session T).

Fixpoint left_law (T : eqType) (steps : session T) (xs : seq T) : R :=
  match steps, xs with
  | Done, [::] => 1
  | Step _ _ P _ _ next, x :: rest => P x * left_law (next x) rest
  | _, _ => 0
  end.
Fixpoint right_law (T : eqType) (steps : session T) (xs : seq T) : R :=
  match steps, xs with
  | Done, [::] => 1
  | Step _ _ _ _ Q next, x :: rest => Q x * right_law (next x) rest
  | _, _ => 0
  end.

(** On no path do the steps cost more than [m] (mu^2) and [e] together. *)
Fixpoint within_budget (T : eqType) (m e : R) (steps : session T) : Prop :=
  match steps with
  | Done => 0 <= m /\ 0 <= e
  | Step m1 e1 P P' Q next =>
      0 <= m1 <= m /\ 0 <= e1 <= e /\ law P /\ law Q /\ cut e1 P P' /\ gdp gaussian m1 P' Q /\
      forall x, within_budget (m - m1) (e - e1) (next x)
  end.
End Sessions.

Section Histograms.
Variables (R : realFieldType) (gaussian : R -> (nat -> R) -> (nat -> R) -> Prop).
Variables (T : eqType) (none : T) (X K : eqType) (keys : seq K).

(** The output that says nothing, for certain. *)
Definition silent (u : T) : R := (u == none)%:R.

(** What is released of a key that [n] records hold: nothing of one that nobody holds; of two counts that
    are not 0, laws whose losses grow with their distance. *)
Definition thresholded (t : R) (cell : nat -> T -> R) : Prop :=
  (forall u, cell 0%N u = silent u) /\ (forall n, law (cell n) /\ total (cell n) 1) /\
  forall n m, close (t ^+ `|n%:Z - m%:Z|%N) 0 (cell n.+1) (cell m.+1).
Definition gaussian_thresholded (m : R) (cell : nat -> T -> R) : Prop :=
  (forall u, cell 0%N u = silent u) /\ (forall n, law (cell n) /\ total (cell n) 1) /\
  forall i j, gdp gaussian (m * (`|i%:Z - j%:Z|%N ^ 2)%:R) (cell i.+1) (cell j.+1).

(** [keys] are any list that has all keys of both datasets: of every other key nothing is released. *)
Definition released (cell : nat -> T -> R) (count : seq X -> K -> nat) : mechanism X R (seq_eqType T) :=
  fun D => product [seq cell (count D k) | k <- keys].

(** How likely nothing is seen of the keys that only [D] has; and how far the counts are apart. *)
Definition alone (cell : nat -> T -> R) (count : seq X -> K -> nat) (D E : seq X) : R :=
  \prod_(k <- keys | count E k == 0%N) cell (count D k) none.
Definition distance_of (count : seq X -> K -> nat) (D E : seq X) : nat :=
  \sum_(k <- keys) `|(count D k)%:Z - (count E k)%:Z|%N.
Definition squares (count : seq X -> K -> nat) (D E : seq X) : nat :=
  \sum_(k <- keys) `|(count D k)%:Z - (count E k)%:Z|%N ^ 2.
End Histograms.

(** The bound that is meant: of the smaller, or of the larger, of two neighbors' numbers. *)
Definition side (smaller : bool) (a b : int) : int := if smaller then Num.min a b else Num.max a b.

(** How far off the noise has to be, at least, for a release to miss the bound: [at_most] or at
    least the number of that side, less [slack]. The number moves by [moved], and is released less
    [shift]. *)
Definition missing (at_most smaller : bool) (shift slack : int) (moved : nat) : int :=
  (if at_most then shift - slack else slack - shift) -
  (if at_most == smaller then moved%:Z else 0) + 1.

(** The released number is at most, or at least, that of a side, less [slack]. *)
Definition compared (X : eqType) (at_most smaller : bool) (slack : int) (query : seq X -> int)
    : hypothesis X int_eqType :=
  fun D E y => let bound := side smaller (query D) (query E) - slack in
    if at_most then y <= bound else bound <= y.

(** Some score, with its noise, is above the threshold. *)
Definition passed (threshold : int) (us : seq int) : bool := has (fun u => threshold < u) us.
