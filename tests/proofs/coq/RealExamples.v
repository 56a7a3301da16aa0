(** Examples of the lift of friendly mechanisms, of the basic filter, and of AboveThreshold. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum ssrint rat order.
From mathcomp Require Import zify.
From mathcomp.analysis Require Import reals sequences exp.
Require Import Definitions Mechanisms Sums Filters FriendlyLift BasicFilter AboveThreshold.
Require Import Noise NoiseTwins Twins LaterTwins LiftTwins RealSums ThresholdTwins Examples.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Let Q : realFieldType := [realFieldType of rat].

(** All are friends but for 2, who is not even its own. *)
Definition but_two (x y : nat) : bool := (x != 2%N) && (y != 2%N).

Theorem basic_filter_add_remove_example : exists (R : realFieldType) (X : eqType) (friends : rel X),
  symmetric friends /\
  (*told*) ~ stable (@add_remove X) (share_friends friends) 1 (basic_coins R friends).
Proof.
exists Q, nat_eqType, but_two; split; first by move=> x y; exact: andbC.
apply: (@not_stable _ _ _ _ _ _ [:: 0%N; 1%N; 2%N] [:: 0%N; 1%N] [:: 0%N; 1%N]) => //.
  by left; exists [:: 0%N; 1%N], 2%N, [::].
by rewrite !big_cons big_nil !chance_listed.
Qed.

Theorem basic_filter_replace_example : exists (R : realFieldType) (X : eqType) (friends : rel X),
  symmetric friends /\
  (*told*) ~ stable (@replace X) (share_friends friends) 2%:R (basic_coins R friends).
Proof.
exists Q, nat_eqType, but_two; split; first by move=> x y; exact: andbC.
apply: (@not_stable _ _ _ _ _ _ [:: 0%N; 1%N; 2%N] [:: 0%N; 1%N; 3%N] (iota 0 4)) => //.
  by exists [:: 0%N; 1%N], 2%N, 3%N, [::].
rewrite !big_cons big_nil !chance_listed; exact: isT.
Qed.

Section Reals.
Variable R : realType.

(** Says how many records there are, by its mass, and nothing where they are not all the same. *)
Definition only_same (D : seq nat) : unit -> R :=
  if constant D then of_size (@falling R) D else fun=> 0.

Lemma only_same_laws : has_laws only_same.
Proof.
move=> D; rewrite /only_same; case: ifP => _; first exact: falling_laws.
by split=> // s _; rewrite /mass big1 // ler01.
Qed.

Lemma only_same_private :
  private (friendly_near (share_friends (@eq_op nat_eqType))) (expR 1) 0 only_same.
Proof.
have same D : share_friends (@eq_op nat_eqType) D -> constant D.
  case: D => // x D share; apply/allP => y y_D.
  have y_xD : y \in x :: D by rewrite inE y_D orbT.
  by have [z /andP[/eqP-> /eqP->]] := share x y (mem_head _ _) y_xD; exact: eqxx.
move=> D E near; have [/same sD [/same sE _]] := near; rewrite /only_same sD sE.
exact: falling_private near.
Qed.

End Reals.

Theorem friendly_lift_example : forall (R : realType), exists (X : eqType)
    (near : seq X -> seq X -> Prop) (friendly : seq X -> Prop) (T : eqType) (e d moved : R)
    (coins : seq X -> seq (X * R)) (M : mechanism X R T),
  0 < e /\ 0 <= d /\ has_laws M /\ hereditary friendly /\ stable near friendly moved coins /\
  private (friendly_near friendly) (expR e) d M /\
  (*told*) ~ private near (expR e) d M /\ ~ private near 1 0 (fun D => filtered (coins D) M).
Proof.
move=> R; exists nat_eqType, (@add_remove nat), (share_friends (@eq_op nat_eqType)), unit_eqType.
exists 1, 0, 2, (basic_coins R (@eq_op nat_eqType)), (@only_same R).
split; first exact: ltr01. split; first exact: lexx. split; first exact: only_same_laws.
split; first exact: share_friends_hereditary.
split; first by apply: basic_filter_add_remove; exact: eq_sym.
split; first exact: only_same_private.
split=> [far|far].
  have near : add_remove [:: 0%N] [:: 0; 1]%N by right; exists [:: 0%N], 1%N, [::].
  have := far _ _ near [:: tt] isT; rewrite /mass !big_seq1 /only_same /= mulr0 addr0.
  by rewrite leNgt expR_gt0.
have near : add_remove [::] [:: 0%N] by right; exists [::], 0%N, [::].
have := far _ _ near [:: tt] isT; rewrite /mass !big_seq1 /= /basic_chance /=.
rewrite divff ?oner_neq0 // subrr mul0r addr0 !mul1r addr0 /only_same /of_size /falling /=.
rewrite oppr0 expR0.
by rewrite leNgt -[X in _ < X]expR0 ltr_expR oppr_lt0 ltr01.
Qed.

(** Queries that move both ways, with noise of half the scale on the threshold. *)
Theorem above_threshold_example : forall (R : realType), exists (X : eqType)
    (queries : seq X -> seq int) (q qy : R) (p py above : int -> R) (M : mechanism X R nat_eqType),
  discrete_laplace q p /\ discrete_laplace qy py /\ tail py above /\
  (forall D, image p (report above (queries D)) (M D)) /\
  exists (near : seq X -> seq X -> Prop) (moved : nat) (t d : R),
  1 <= t /\ q <= qy ^+ 2 /\ move_by queries near moved /\
  close t d p (fun z => p (z + (2 * moved)%N%:Z)) /\ (*told*) ~ private near 1 0 M.
Proof.
move=> R; have h01 := half01 R; set h := _^-1 in h01; have [h0 h1] := andP h01.
have q01 : 0 < h ^+ 2 < 1 by rewrite exprn_gt0 // exprn_ilt1 // ltW.
have [|n far] := told_apart q01 h01 ltr01 _.
  rewrite mul1r -exprD; case/andP: q01 => q0 q1.
  by rewrite exprn_ilt1 // ltW.
exists nat_eqType, (queries n), (h ^+ 2), h, (laplace (h ^+ 2)), (laplace h), (above h).
exists (reports (h ^+ 2) h n); split; first exact: laplace_of_q.
split; first exact: laplace_of_q.
split; first exact: tail_above.
split; first exact: reports_image.
exists (@add_remove nat), 1%N, (h ^+ 2 ^+ 2)^-1, 0; split; first exact: inverse_ge1.
split; first exact: lexx.
split; first exact: queries_move_by.
split; first exact: (shift_is_pure (laplace_of_q q01) 1).
by move=> /(_ _ _ (near_one (conj erefl erefl))) /far.
Qed.

(** What is nowhere less, and somewhere more, has a larger total. *)
Lemma total_more (R : realFieldType) (T : eqType) (f g : T -> R) m n (x0 : T) c :
  (forall x, 0 <= f x <= g x) -> f x0 + c <= g x0 -> total f m -> total g n -> m + c <= n.
Proof.
move=> fg more tf tg; rewrite -ler_subr_addr; apply: tf.2 => s us; rewrite ler_subr_addr.
set l := undup (x0 :: s); have ul : uniq l by exact: undup_uniq.
apply: le_trans (mass_total tg ul); apply: (@le_trans _ _ (mass f l + c)).
  rewrite ler_add2r; apply: mass_sub => // [x|x x_s]; first by case/andP: (fg x).
  by rewrite inE x_s orbT.
have in_l : x0 \in l by rewrite mem_undup mem_head.
rewrite /mass !(bigD1_seq x0) //= addrAC; apply: ler_add => //.
by apply: ler_sum => x _; case/andP: (fg x).
Qed.

(** One query, which a record can only lower. *)
Theorem above_threshold_one_way_example : forall (R : realType), exists (X : eqType)
    (queries : seq X -> seq int) (q qy : R) (p py above : int -> R) (M : mechanism X R nat_eqType),
  discrete_laplace q p /\ discrete_laplace qy py /\ tail py above /\
  (forall D, image p (report above (queries D)) (M D)) /\
  exists (near : seq X -> seq X -> Prop) (moved : nat) (t d : R),
  1 <= t /\ q <= qy /\ total p 1 /\ move_one_way queries near moved /\
  close t d p (fun z => p (z + (2 * moved)%N%:Z)) /\ (*told*) ~ private near 1 0 M.
Proof.
move=> R; have h01 := half01 R; set h := _^-1 in h01; have [h0 h1] := andP h01.
exists nat_eqType, (queries 0), h, h, (laplace h), (laplace h), (above h), (reports h h 0).
split; first exact: laplace_of_q.
split; first exact: laplace_of_q.
split; first exact: tail_above.
split; first exact: reports_image.
exists (@add_remove nat), 1%N, (h ^+ 2)^-1, 0; split; first exact: inverse_ge1.
split; first exact: lexx.
split; first exact: laplace_total.
split.
  move=> D E _; split; first by case: D E => [|x D] [|y E].
  by case: D E => [|x D] [|y E]; [left | right | left | left] => -[|[|i]].
split; first exact: (shift_is_pure (laplace_of_q h01) 1).
have py_pos : 0 < laplace h (-1) by exact: laplace_gt0.
have p_pos : 0 < laplace h 0 by exact: laplace_gt0.
have tl := tail_above h01.
have strict : above h 0 + laplace h (-1) <= above h (-1).
  apply: (total_more (x0 := -1) _ _ (tl 0) (tl (-1))) => [w|]; last by rewrite add0r.
  have lw : 0 <= laplace h w by exact/ltW/laplace_gt0.
  case: (lerP 0 w) => [w0|_]; last by case: ifP => _; rewrite ?lexx ?lw.
  by rewrite lw (le_trans _ w0) // lexx.
have far : reports h h 0 [:: 0%N] 0 + laplace h 0 * laplace h (-1) <= reports h h 0 [::] 0.
  apply: (total_more (x0 := 0) _ _ (reports_image h01 h01 0 _ 0%N) (reports_image h01 h01 0 _ 0%N)).
    move=> z; rewrite /report /queries /= !subr0.
    have pz : 0 <= laplace h z by exact/ltW/laplace_gt0.
    rewrite mulr_ge0 //=; last by case/andP: (above01 (laplace_of_q h01) tl z).
    by apply: ler_wpmul2l => //; apply: (above_falls (laplace_of_q h01) tl); rewrite ger_addl.
  rewrite /report /queries /= subr0 sub0r -mulrDr; apply: ler_wpmul2l strict; exact: ltW.
move=> /(_ _ _ (near_one (conj erefl erefl)) [:: 0%N] isT); rewrite /mass !big_seq1 mul1r addr0.
by move=> /(le_trans far); rewrite ger_addl leNgt mulr_gt0.
Qed.
