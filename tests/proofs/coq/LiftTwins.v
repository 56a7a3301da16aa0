(** What is false of the lift of friendly mechanisms, over the real numbers. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum ssrint order.
From mathcomp Require Import ring zify.
From mathcomp.analysis Require Import reals sequences exp.
Require Import Definitions Mechanisms Sums Transfer Products Filters FriendlyLift Twins.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

(** The lift asks three things of a filter's chances; none of them can be left out. *)
Section Lift.
Variable R : realType.
Implicit Types (near : seq nat -> seq nat -> Prop) (friendly : seq nat -> Prop) (e d moved : R).
Implicit Types (coins : seq nat -> seq (nat * R)) (M : mechanism nat R unit_eqType).

Definition are_chances coins := forall D c, c \in coins D -> 0 <= c.2 <= 1.

Definition keep_friends friendly coins :=
  forall D kept, subseq kept [seq c.1 | c <- coins D & 0 < c.2] -> friendly kept.

Definition move_little near moved coins := forall D E, near D E -> exists moves,
  coins D = coins_of fst moves /\ coins E = coins_of snd moves /\
  \sum_(m <- moves) `|odflt 0 m.2.1 - odflt 0 m.2.2| <= moved.

Definition each_moves_little near moved coins := forall D E, near D E -> exists moves,
  coins D = coins_of fst moves /\ coins E = coins_of snd moves /\
  forall m, m \in [seq as_move m | m <- moves] -> `|m.2.1 - m.2.2| <= moved.

(** What the lift claims. *)
Definition lifted near e d moved coins M : Prop :=
  private near (expR ((expR e - 1) * moved))
    (d * ((expR ((expR e - 1) * moved) - 1) / (expR e - 1))) (fun D => filtered (coins D) M).

(** All records, each with the same chance [c]. *)
Definition all_with (c : R) (D : seq nat) : seq (nat * R) := [seq (x, c) | x <- D].

Lemma filtered_all M D u : filtered (all_with 1 D) M u = M D u.
Proof. by elim: D M => //= x D IH M; rewrite IH subrr mul0r addr0 mul1r. Qed.

Lemma all_move k : all_with 1 [::] = coins_of fst (nseq k (0%N, (None, Some (1 : R)))) /\
  all_with 1 (nseq k 0%N) = coins_of snd (nseq k (0%N, (None, Some (1 : R)))).
Proof. by rewrite /coins_of; elim: k => //= k [-> <-]. Qed.

Lemma all_are_chances : are_chances (all_with 1).
Proof. by move=> D _ /mapP[x _ ->] /=; rewrite lexx ler01. Qed.

(** No records beside [k]. *)
Definition many k (D E : seq nat) : Prop := D = [::] /\ E = nseq k 0%N.

(** Falls by a factor e with each record. *)
Definition falling (n : nat) : R := expR (- n%:R).

Lemma falling_laws : has_laws (of_size falling).
Proof.
apply: of_size_laws => n; rewrite /falling ltW ?expR_gt0 //=.
by rewrite -[X in _ <= X]expR0 ler_expR oppr_le0 ler0n.
Qed.

Lemma falling_private friendly : private (friendly_near friendly) (expR 1) 0 (of_size falling).
Proof.
move=> D E [_ [_ near_DE]]; move: D E near_DE.
apply: (@private_of_size R (expR 1) 0 falling (lexx 0)) => n.
rewrite !addr0 /falling -!expRD !ler_expR.
rewrite mulrS opprD ler_add2r addrA subrr add0r lexx; split=> //.
by apply: (@le_trans _ _ 0); rewrite ?oppr_le0 ler01.
Qed.

(** friendly_lift: of a set that may be kept and is not friendly nothing was claimed. *)
Theorem friendly_lift_twin : ~ forall near friendly e d moved coins M,
  0 < e -> 0 <= d -> has_laws M -> hereditary friendly -> are_chances coins ->
  move_little near moved coins -> private (friendly_near friendly) (expR e) d M ->
  lifted near e d moved coins M.
Proof.
pose f n : R := if n is 0%N then 0 else 1.
pose near (D E : seq nat) := D = [:: 0%N] /\ E = [::].
move=> /(_ near (fun=> False) 1 0 1 (all_with 1) (of_size f) ltr01 (lexx _)) twin.
have lM : has_laws (of_size f) by apply: of_size_laws => -[|n]; rewrite ?lexx ?ler01.
have her : hereditary (fun _ : seq nat => False) by move=> D E [].
have moves : move_little near 1 (all_with 1).
  move=> _ _ [-> ->]; exists [:: (0%N, (Some 1, None))].
  by rewrite big_seq1 /= subr0 normr1.
have none : private (friendly_near (fun=> False)) (expR 1) 0 (of_size f) by move=> D E [].
have := twin lM her all_are_chances moves none _ _ (conj erefl erefl) [:: tt] isT.
by rewrite /mass !big_seq1 !filtered_all /of_size /= mulr0 mul0r addr0 ler10.
Qed.

(** friendly_lift: what is no chance makes differences larger without bound. *)
Theorem friendly_lift_chances_twin : ~ forall near friendly e d moved coins M,
  0 < e -> 0 <= d -> has_laws M -> hereditary friendly -> keep_friends friendly coins ->
  move_little near moved coins -> private (friendly_near friendly) (expR e) d M ->
  lifted near e d moved coins M.
Proof.
move=> /(_ (many 1) (fun=> True) 1 0 2 (all_with 2) (of_size falling) ltr01 (lexx _)) twin.
have moves : move_little (many 1) 2 (all_with 2).
  move=> _ _ [-> ->]; exists [:: (0%N, (None, Some 2))].
  by rewrite big_seq1 /= sub0r normrN ger0_norm ?ler0n.
have := twin falling_laws (fun D E _ _ => I) (fun D kept _ => I) moves (@falling_private _) _ _
  (conj erefl erefl) [:: tt] isT.
rewrite /mass !big_seq1 /= /of_size /= /falling oppr0 expR0 mul0r addr0.
have -> : 2 * expR (-1) + (1 - 2) * 1 = 2 / expR 1 - 1 :> R by rewrite expRN; ring.
apply/negP; rewrite -ltNge; apply: le_lt_trans ltr01; apply: mulr_ge0_le0; first exact/ltW/expR_gt0.
by rewrite subr_le0 ler_pdivr_mulr ?expR_gt0 // mul1r; have := @expR_ge1Dx R 1 ler01.
Qed.

(** friendly_lift: the chances' moves add up. *)
Theorem friendly_lift_distance_twin : ~ forall near friendly e d moved coins M,
  0 < e -> 0 <= d -> has_laws M -> hereditary friendly -> are_chances coins ->
  keep_friends friendly coins -> each_moves_little near moved coins ->
  private (friendly_near friendly) (expR e) d M -> lifted near e d moved coins M.
Proof.
have [k k_large] : exists k : nat, expR 1 < k%:R :> R.
  by exists (Num.bound (expR (1 : R))); exact: archi_boundP (ltW (expR_gt0 _)).
move=> /(_ (many k) (fun=> True) 1 0 1 (all_with 1) (of_size falling) ltr01 (lexx _)) twin.
have moves : each_moves_little (many k) 1 (all_with 1).
  move=> _ _ [-> ->]; exists (nseq k (0%N, (None, Some 1))); have [<- <-] := all_move k.
  by do 2!split=> //; move=> m /mapP[n /nseqP[-> _] ->] /=; rewrite sub0r normrN normr1.
have := twin falling_laws (fun D E _ _ => I) all_are_chances (fun D kept _ => I) moves
  (@falling_private _) _ _ (conj erefl erefl) [:: tt] isT.
rewrite /mass !big_seq1 !filtered_all /of_size size_nseq /falling mul0r addr0 mulr1 oppr0 expR0.
rewrite -expRD -[X in X <= _]expR0 ler_expR subr_ge0 leNgt => /negP; apply.
by apply: le_lt_trans k_large; rewrite ler_subl_addr ler_addl ler01.
Qed.

End Lift.
