(** Filters that keep records on their own: a claim for friendly neighbors becomes one for all. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum order.
From mathcomp Require Import ring.
Require Import Definitions Mechanisms Sums Transfer Products.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Filters.
Variables (R : realFieldType) (X : eqType) (T : eqType).
Implicit Types (t d : R) (M : mechanism X R T).

(** A record with the chances of being kept on the two sides; one that a side lacks has chance 0. *)
Definition move := (X * (R * R))%type.
Definition left_coin (m : move) : X * R := (m.1, m.2.1).
Definition right_coin (m : move) : X * R := (m.1, m.2.2).
Definition distance (moves : seq move) : R := \sum_(m <- moves) `|m.2.1 - m.2.2|.

Definition chances (moves : seq move) : Prop :=
  forall m, m \in moves -> (0 <= m.2.1 <= 1) /\ (0 <= m.2.2 <= 1).

(** Every set that may be kept on the way, record by record from the left side to the right one, is
    friendly: of the records before some place those with a chance on the right, of those after it
    those with a chance on the left, and at the place on either. *)
Definition friendly_on_the_way (friendly : seq X -> Prop) (moves : seq move) : Prop :=
  forall before m after kept, moves = before ++ m :: after ->
    subseq kept ([seq n.1 | n <- before & 0 < n.2.2] ++
                 (if 0 < Num.max m.2.1 m.2.2 then [:: m.1] else [::]) ++
                 [seq n.1 | n <- after & 0 < n.2.1]) -> friendly kept.

Lemma filtered_law coins M : (forall c, c \in coins -> 0 <= c.2 <= 1) -> has_laws M ->
  law (filtered coins M).
Proof.
elim: coins M => [|[x p] rest IH] M ok lM /=; first exact: lM.
have /andP[p0 p1] : 0 <= p <= 1 by exact: (ok (x, p) (mem_head _ _)).
have ok' c : c \in rest -> 0 <= c.2 <= 1 by move=> in_c; apply: ok; rewrite inE in_c orbT.
have [l1 l0] : law (filtered rest (fun kept => M (x :: kept))) /\ law (filtered rest M).
  by split; apply: IH ok' _ => D; exact: lM.
have q0 : 0 <= 1 - p by rewrite subr_ge0.
split=> [u|s us]; first by apply: addr_ge0; apply: mulr_ge0 => //; exact: law_ge0.
rewrite /mass big_split /= -!mulr_sumr.
apply: (@le_trans _ _ (p * 1 + (1 - p) * 1)); last by rewrite !mulr1 addrC subrK.
by apply: ler_add; apply: ler_wpmul2l => //; exact: mass_le1.
Qed.

(** What is linear in the mechanism. *)
Lemma filtered_close coins t d M N : (forall c, c \in coins -> 0 <= c.2 <= 1) ->
  (forall kept, subseq kept [seq c.1 | c <- coins & 0 < c.2] -> close t d (M kept) (N kept)) ->
  close t d (filtered coins M) (filtered coins N).
Proof.
elim: coins M N => [|[x p] rest IH] M N ok MN /=; first exact: MN.
have /andP[p0 p1] : 0 <= p <= 1 by exact: (ok (x, p) (mem_head _ _)).
have ok' c : c \in rest -> 0 <= c.2 <= 1 by move=> in_c; apply: ok; rewrite inE in_c orbT.
have q0 : 0 <= 1 - p by rewrite subr_ge0.
have c0 : close t d (filtered rest M) (filtered rest N).
  apply: IH => // kept sub; apply: MN => /=.
  by case: ifP => _ //=; apply: subseq_trans sub (subseq_cons _ _).
move=> s us; rewrite /mass !big_split /= -!mulr_sumr.
have := c0 s us; rewrite /mass => c0s.
case p_pos: (0 < p); last first.
  have -> : p = 0 by apply/eqP; move: p0; rewrite le_eqVlt p_pos orbF eq_sym.
  by rewrite subr0 !mul0r !mul1r !add0r.
have c1 : close t d (filtered rest (fun kept => M (x :: kept))) (filtered rest (fun kept => N (x :: kept))).
  by apply: IH => // kept sub; apply: MN; rewrite /= p_pos /= eqxx.
have := c1 s us; rewrite /mass => c1s.
apply: le_trans (ler_add (ler_wpmul2l p0 c1s) (ler_wpmul2l q0 c0s)) _.
set a := \sum_(i <- s) _; set b := \sum_(i <- s) _.
have -> : t * (p * a + (1 - p) * b) + d = p * (t * a + d) + (1 - p) * (t * b + d) by ring.
by [].
Qed.

(** One chance moves: what is gained or lost is the difference of the two mixed laws. *)
Lemma close_one_chance t d (p q : R) (P1 P0 : T -> R) : 1 <= t -> 0 <= d ->
  0 <= p <= 1 -> 0 <= q <= 1 -> (forall u, 0 <= P1 u) -> (forall u, 0 <= P0 u) ->
  (p != q -> close t d P1 P0 /\ close t d P0 P1) ->
  close (1 + (t - 1) * `|p - q|) (d * `|p - q|)
    (fun u => p * P1 u + (1 - p) * P0 u) (fun u => q * P1 u + (1 - q) * P0 u).
Proof.
move=> t1 d0 /andP[p0 p1] /andP[q0 q1] P1_ge0 P0_ge0 both s us.
rewrite /mass !big_split /= -!mulr_sumr.
have a0 : 0 <= t - 1 by rewrite subr_ge0.
case: (eqVneq p q) => [->|/both[PQ QP]].
  by rewrite subrr normr0 !mulr0 !addr0 mul1r.
have := PQ s us; have := QP s us; rewrite /mass.
set A := \sum_(x <- s) P1 x; set B := \sum_(x <- s) P0 x => BA AB.
have A0 : 0 <= A by apply: sumr_ge0.
have B0 : 0 <= B by apply: sumr_ge0.
have mixed (r : R) : 0 <= r <= 1 -> A - B <= (t - 1) * (r * A + (1 - r) * B) + d /\
                              B - A <= (t - 1) * (r * A + (1 - r) * B) + d.
  case/andP=> r0 r1; have s0 : 0 <= 1 - r by rewrite subr_ge0.
  have ler_mix C : C <= A -> C <= B -> C <= r * A + (1 - r) * B.
    move=> CA CB; rewrite -[X in X <= _](_ : r * C + (1 - r) * C = C); last by ring.
    by apply: ler_add; apply: ler_wpmul2l.
  split.
    case: (lerP A B) => AleB.
      apply: (@le_trans _ _ 0); first by rewrite subr_le0.
      by rewrite addr_ge0 // mulr_ge0 // ler_mix.
    apply: (@le_trans _ _ ((t - 1) * B + d)).
      by rewrite ler_subl_addr (_ : _ + _ + B = t * B + d) //; ring.
    by rewrite ler_add2r; apply: ler_wpmul2l => //; apply: ler_mix => //; exact: ltW.
  case: (lerP B A) => BleA.
    apply: (@le_trans _ _ 0); first by rewrite subr_le0.
    by rewrite addr_ge0 // mulr_ge0 // ler_mix.
  apply: (@le_trans _ _ ((t - 1) * A + d)).
    by rewrite ler_subl_addr (_ : _ + _ + A = t * A + d) //; ring.
  by rewrite ler_add2r; apply: ler_wpmul2l => //; apply: ler_mix => //; exact: ltW.
have q01 : 0 <= q <= 1 by rewrite q0.
have [up down] := mixed q q01.
set Q := q * A + (1 - q) * B in up down *.
have -> : p * A + (1 - p) * B = Q + (p - q) * (A - B) by rewrite /Q; ring.
have -> : (1 + (t - 1) * `|p - q|) * Q + d * `|p - q| = Q + `|p - q| * ((t - 1) * Q + d) by ring.
rewrite ler_add2l; case: (lerP q p) => [qp|/ltW pq].
  by apply: ler_wpmul2l; rewrite ?subr_ge0.
rewrite (_ : (p - q) * (A - B) = (q - p) * (B - A)); last by ring.
by apply: ler_wpmul2l; rewrite ?subr_ge0.
Qed.

(** The product of 1 + (t - 1) times each change. *)
Definition growth t (moves : seq move) : R := \prod_(m <- moves) (1 + (t - 1) * `|m.2.1 - m.2.2|).

Lemma growth_ge1 t moves : 1 <= t -> 1 <= growth t moves.
Proof.
move=> t1; rewrite /growth; elim: moves => [|m moves IH]; first by rewrite big_nil.
rewrite big_cons -[X in X <= _]mulr1; apply: ler_pmul => //.
by rewrite ler_addl mulr_ge0 // subr_ge0.
Qed.

Lemma close_mixed t d (q : R) (P1 P0 Q1 Q0 : T -> R) : 0 <= q <= 1 ->
  (0 < q -> close t d P1 Q1) -> close t d P0 Q0 ->
  close t d (fun u => q * P1 u + (1 - q) * P0 u) (fun u => q * Q1 u + (1 - q) * Q0 u).
Proof.
case/andP=> q0 q1 PQ1 PQ0 s us; have s0 : 0 <= 1 - q by rewrite subr_ge0.
rewrite /mass !big_split /= -!mulr_sumr; have := PQ0 s us; rewrite /mass => c0.
move: q0; rewrite le_eqVlt => /orP[/eqP<-|q_pos]; first by rewrite subr0 !mul0r !mul1r !add0r.
have := PQ1 q_pos s us; rewrite /mass => c1.
apply: le_trans (ler_add (ler_wpmul2l (ltW q_pos) c1) (ler_wpmul2l s0 c0)) _.
set a := \sum_(i <- s) _; set b := \sum_(i <- s) _.
by have -> : t * (q * a + (1 - q) * b) + d = q * (t * a + d) + (1 - q) * (t * b + d) by ring.
Qed.

Lemma subseq_some (A : eqType) (x : A) (b : bool) s : subseq s ((if b then [:: x] else [::]) ++ s).
Proof. by case: b => //=; exact: subseq_cons. Qed.

Lemma close_hybrids t d (moves : seq move) M (friendly : seq X -> Prop) :
  1 < t -> 0 <= d -> chances moves -> hereditary friendly -> friendly_on_the_way friendly moves ->
  private (friendly_near friendly) t d M -> has_laws M ->
  close (growth t moves) (d * ((growth t moves - 1) / (t - 1)))
    (filtered [seq left_coin m | m <- moves] M) (filtered [seq right_coin m | m <- moves] M).
Proof.
move=> t1 d0; elim: moves M friendly => [|[x [p q]] rest IH] M friendly ok her way pM lM /=.
  by rewrite /growth big_nil subrr mul0r mulr0; apply: close_refl => //; exact: law_ge0.
have a_pos : 0 < t - 1 by rewrite subr_gt0.
have [p01 q01] : (0 <= p <= 1) /\ (0 <= q <= 1) by exact: (ok _ (mem_head _ _)).
have ok' : chances rest by move=> m in_m; apply: ok; rewrite inE in_m orbT.
have okl c : c \in [seq left_coin m | m <- rest] -> 0 <= c.2 <= 1.
  by case/mapP=> m in_m ->; case: (ok' m in_m).
have left_pos : [seq c.1 | c <- [seq left_coin m | m <- rest] & 0 < c.2] =
    [seq n.1 | n <- rest & 0 < n.2.1] by rewrite filter_map -map_comp.
set F1 := filtered [seq left_coin m | m <- rest] (fun kept => M (x :: kept)).
set F0 := filtered [seq left_coin m | m <- rest] M.
have lF1 : law F1 by apply: filtered_law => // D; exact: lM.
have lF0 : law F0 by apply: filtered_law.
have step1 := @close_one_chance t d p q F1 F0 (ltW t1) d0 p01 q01 (law_ge0 lF1) (law_ge0 lF0).
have {}step1 : close (1 + (t - 1) * `|p - q|) (d * `|p - q|)
    (fun u => p * F1 u + (1 - p) * F0 u) (fun u => q * F1 u + (1 - q) * F0 u).
  apply: step1 => pq.
  have max_pos : 0 < Num.max p q.
    rewrite lt_maxr; move: pq; case/andP: p01 => p0 _; case/andP: q01 => q0 _.
    by rewrite !lt0r p0 q0 !andbT -negb_and; apply: contra => /andP[/eqP-> /eqP->].
  have friends kept : subseq kept [seq n.1 | n <- rest & 0 < n.2.1] -> friendly (x :: kept).
    move=> sub; apply: (way [::] (x, (p, q)) rest) => //=; rewrite max_pos /= eqxx.
    exact: sub.
  split; apply: filtered_close => // kept; rewrite left_pos => /friends fr; apply: pM.
    by split=> //; split; [apply: her fr _; exact: subseq_cons | left; exists [::], x, kept].
  by split; [apply: her fr _; exact: subseq_cons | split=> //; right; exists [::], x, kept].
have step2 : close (growth t rest) (d * ((growth t rest - 1) / (t - 1)))
    (fun u => q * F1 u + (1 - q) * F0 u)
    (fun u => q * filtered [seq right_coin m | m <- rest] (fun kept => M (x :: kept)) u +
              (1 - q) * filtered [seq right_coin m | m <- rest] M u).
  apply: close_mixed => // [q_pos|].
    apply: (IH _ (fun kept => friendly (x :: kept))) => // [D E fD DE|before m after kept e sub|D E].
    - by apply: her fD _; rewrite /= eqxx.
    - apply: (way ((x, (p, q)) :: before) m after); first by rewrite e.
      by rewrite /= q_pos /= eqxx.
    - case=> fD [fE near_DE]; apply: pM; split=> //; split=> //.
      case: near_DE => -[b [y [a [-> ->]]]]; first by left; exists (x :: b), y, a.
      by right; exists (x :: b), y, a.
  apply: (IH _ friendly) => // before m after kept e sub.
  apply: (way ((x, (p, q)) :: before) m after); first by rewrite e.
  by apply: subseq_trans sub _ => /=; case: (0 < q) => //=; exact: subseq_cons.
have grow_pos : 0 <= 1 + (t - 1) * `|p - q|.
  by apply: addr_ge0; [exact: ler01 | apply: mulr_ge0 => //; exact: ltW].
have := close_steps grow_pos step1 step2.
rewrite /growth big_cons /= -/(growth t rest); congr (close _ _ _ _).
have ne : t - 1 != 0 by rewrite gt_eqF.
by field.
Qed.

End Filters.
