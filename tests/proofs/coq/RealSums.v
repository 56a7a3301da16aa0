(** Of real numbers: what is bounded has a total, and discrete Laplace noise has all of its mass. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum ssrint order.
From mathcomp Require Import ring zify.
From mathcomp Require Import classical_sets.
From mathcomp.analysis Require Import reals.
Require Import Definitions Mechanisms Sums AboveThreshold NoiseTwins.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Sums.
Variable R : realType.

(** The least upper bound of all finite sums. *)
Definition sum_of (T : eqType) (f : T -> R) : R := sup [set r | exists2 s, uniq s & r = mass f s].

Lemma total_sum_of (T : eqType) (f : T -> R) b :
  (forall s, uniq s -> mass f s <= b) -> total f (sum_of f).
Proof.
move=> le_b; split=> [s us|u le_u].
  by apply: sup_ub; [exists b => _ [l ul ->]; exact: le_b | exists s].
by apply: sup_le_ub; [exists (mass f [::]), [::] | move=> _ [l ul ->]; exact: le_u].
Qed.

Lemma bernoulli (a : R) n : 0 <= a -> 1 + n%:R * a <= (1 + a) ^+ n.
Proof.
move=> a0; elim: n => [|n IH]; first by rewrite mul0r addr0 expr0.
rewrite exprS; apply: le_trans (ler_wpmul2l _ IH); last by rewrite addr_ge0 ?ler01.
rewrite mulrS -subr_ge0.
have -> : (1 + a) * (1 + n%:R * a) - (1 + (1 + n%:R) * a) = n%:R * (a * a) by ring.
by rewrite mulr_ge0 ?ler0n ?mulr_ge0.
Qed.

(** The larger base wins. *)
Lemma outgrown (a b c : R) : 0 <= a -> 0 <= b -> b < c -> exists n, a * b ^+ n < c ^+ n.
Proof.
move=> a0; rewrite le_eqVlt => /orP[/eqP<- c0|b0 bc]; first by exists 1%N; rewrite !expr1 mulr0.
have r0 : 0 < c / b - 1 by rewrite subr_gt0 ltr_pdivl_mulr // mul1r.
exists (Num.bound (a / (c / b - 1))); set n := Num.bound _.
rewrite -ltr_pdivl_mulr ?exprn_gt0 // -expr_div_n -[c / b](subrK 1) addrC.
apply: lt_le_trans (bernoulli n (ltW r0)); apply: (@lt_trans _ _ (n%:R * (c / b - 1))).
  by rewrite -ltr_pdivr_mulr //; apply: archi_boundP; rewrite divr_ge0 // ltW.
by rewrite ltr_addr ltr01.
Qed.

(** The integers up to [n] on both sides of 0. *)
Fixpoint window (n : nat) : seq int :=
  if n is k.+1 then k.+1%:Z :: - k.+1%:Z :: window k else [:: 0].

Lemma in_window n z : z \in window n -> (`|z| <= n)%N.
Proof.
elim: n => [|n IH]; rewrite !inE; first by move=> /eqP->.
case/or3P=> [/eqP->|/eqP->|/IH le_n]; [exact: leqnn | by rewrite abszN | exact: leqW].
Qed.

Lemma window_uniq n : uniq (window n).
Proof.
elim: n => //= n IH; have out z : `|z|%N = n.+1 -> z \notin window n.
  by move=> e; apply/negP => /in_window; rewrite e ltnn.
by rewrite inE negb_or !out ?abszN // IH.
Qed.

Lemma laplace_total (q : R) : 0 < q < 1 -> total (laplace q) 1.
Proof.
move=> q01; have [q0 q1] := andP q01; have [_ [lp _]] := laplace_of_q q01.
have n1 : 0 < 1 + q by rewrite addr_gt0 ?ltr01.
have window_mass n : mass (laplace q) (window n) = 1 - 2 * q / (1 + q) * q ^+ n.
  have n1' : 1 + q != 0 by rewrite gt_eqF.
  elim: n => [|n IH]; first by rewrite /mass big_seq1 /laplace /= expr0; field.
  rewrite /mass !big_cons -/(mass _ _) IH /laplace abszN /= exprS; set r := q ^+ n; by field.
split=> [s us|u le_u]; first exact: mass_le1.
rewrite leNgt; apply/negP => u1; have rest : 0 < 1 - u by rewrite subr_gt0.
have [|n] := @outgrown (2 * q / (1 + q) / (1 - u)) q 1 _ (ltW q0) q1.
- by rewrite !divr_ge0 ?mulr_ge0 ?ler0n // ltW.
rewrite expr1n mulrAC ltr_pdivr_mulr // mul1r => small; have := le_u _ (window_uniq n).
by rewrite window_mass leNgt ltr_subr_addl -ltr_subr_addr small.
Qed.

End Sums.
