(** Requests chosen after seeing answers, under limits on epsilon and delta; events hidden in the coins. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum order.
From mathcomp Require Import ring.
Require Import Definitions Mechanisms Sums Transfer Products Events Rules Hypotheses.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Filter.
Variables (R : realFieldType) (X T : eqType) (near : seq X -> seq X -> Prop).
Notation within_limits := (@within_limits R X T near).
Notation requests := (@requests R X T).
Notation Stop := (@Stop R X T).
Implicit Types (t d : R).

Lemma mass_answers t1 d1 (M : mechanism X R T) next D s :
  mass (answers (Ask t1 d1 M next) D) s =
  mass (joint (M D) (fun x => answers (next x) D)) (pmap (@uncons T) s).
Proof.
rewrite /mass; elim: s => [|xs s IH]; first by rewrite !big_nil.
by rewrite big_cons IH; case: xs => [|x xs] /=; rewrite ?add0r // big_cons.
Qed.

Lemma stopped_law D : law (answers Stop D).
Proof. exact: (@product_law R T [::]). Qed.

(** The filter for epsilon and delta: the whole has the limits, whatever was asked and when it ended.
    A request that nothing could follow within the limits is none: there is an answer. *)
Theorem limits_filter t d (asked : requests) : inhabited T -> within_limits t d asked ->
  has_laws (answers asked) /\ private near t d (answers asked).
Proof.
move=> [x0] ok; suff [t1 [d0 both]] : 1 <= t /\ 0 <= d /\
    (has_laws (answers asked) /\ private near t d (answers asked)) by [].
elim: asked t d ok => [|t1 d1 M next IH] t d /=.
  move=> [t1 d0]; split=> //; split=> //; split=> [D|D E _]; first exact: stopped_law.
  have l D' := stopped_law D'.
  apply: (@close_weaken R _ 1 0) => //; first by exact: law_ge0 (l E).
  by apply: (@close_refl R _ 1 (answers Stop D)) => //; exact: law_ge0 (l D).
move=> [t11 [d10 [lM [pM ok]]]].
have t1_pos : 0 < t1 by apply: lt_le_trans t11; exact: ltr01.
have sub x := IH x _ _ (ok x).
have [tt [dd _]] := sub x0.
have t_ge : t1 <= t by move: tt; rewrite ler_pdivl_mulr // mul1r.
have d_ge : d1 <= d by move: dd; rewrite subr_ge0.
have lN x : has_laws (answers (next x)) by have [_ [_ []]] := sub x.
have pN x : private near (t / t1) (d - d1) (answers (next x)) by have [_ [_ []]] := sub x.
split; first exact: le_trans t11 t_ge.
split; first exact: le_trans d10 d_ge.
split=> [D|D E near_DE].
  split=> [[|x xs] //=|s us]; first by apply: mulr_ge0; apply: law_ge0; [exact: lM | exact: lN].
  have lj := joint_law (lM D) (fun x => lN x D).
  by rewrite (mass_answers t1 d1); exact: (mass_le1 lj (uncons_uniq us)).
move=> s us; rewrite !(mass_answers t1 d1).
have -> : t = t1 * (t / t1) by rewrite mulrC divfK // gt_eqF.
have -> : d = d1 + (d - d1) by ring.
apply: (close_joint _ _ _ _ _ _ _ _ _ (uncons_uniq us)) => //.
- exact: ltW.
- by apply: le_trans tt; exact: ler01.
- by move=> x; exact: lN.
- by move=> x; exact: lN.
- exact: pM.
- by move=> x; exact: pN.
Qed.

End Filter.

Section Coins.
Variables (R : realFieldType) (X : eqType).
Implicit Types (t d e : R) (near : seq X -> seq X -> Prop).

Lemma coupled_within (T : eqType) e (C : T * T -> R) (P Q : T -> R) :
  coupling C P Q -> rarely_differ e C -> within e P Q.
Proof.
case=> lC [CP CQ] rare s us.
have C0 z : 0 <= C z by exact: law_ge0.
apply: (sum_totals (f := fun y z => C z * (z.1 == y)%:R) _ CP) => [y z|l ul].
  by rewrite mulr_ge0 ?ler0n.
have cut y : mass (fun z => C z * (z.1 == y)%:R) l <=
    mass (fun z => C z * (z.2 == y)%:R) l +
    \sum_(z <- l) where_good (fun z => z.1 != z.2) C z * (z.1 == y)%:R.
  rewrite /mass -big_split /=; apply: ler_sum => z _; rewrite /where_good.
  case: (z.1 =P z.2) => [->|_] /=; first by rewrite mul0r addr0.
  by rewrite -[X in X <= _]add0r; apply: ler_add => //; rewrite mulr_ge0 ?ler0n.
apply: (le_trans (ler_sum _ (fun y _ => cut y))); rewrite big_split /=; apply: ler_add.
  by apply: ler_sum => y _; exact: mass_total (CQ y) ul.
apply: le_trans (rare l ul); rewrite exchange_big /=; apply: ler_sum => z _.
rewrite -mulr_sumr; set w := where_good _ _ _.
have w0 : 0 <= w by rewrite /w /where_good; case: ifP.
rewrite -[X in _ <= X]mulr1; apply: ler_wpmul2l => //.
case in_s: (z.1 \in s).
  by rewrite (bigD1_seq z.1) //= eqxx big1 ?addr0 // => y; rewrite eq_sym => /negbTE->.
by rewrite big1_seq ?ler01 // => y /= y_s; case: eqP => // e1; rewrite e1 y_s in in_s.
Qed.

Lemma within_good (T : eqType) (good : T -> bool) e (P Q : T -> R) :
  within e P Q -> within e (where_good good P) (where_good good Q).
Proof.
move=> PQ s us.
have filtered (S : T -> R) : mass (where_good good S) s = mass S [seq x <- s | good x].
  by rewrite /mass big_filter [RHS]big_mkcond.
by rewrite !filtered; apply: PQ; exact: filter_uniq.
Qed.

Theorem add_total_variation_event near (T : eqType) t d e (M : mechanism X R T)
    (H : seq (hypothesis X T)) :
  0 <= t -> claimed_of_coupled H near t d e M -> under H near t (d + (1 + t) * e) M.
Proof.
move=> t0 cM D E near_DE; have [P [Q [[C [CP rare]] [[C' [CQ rare']] PQ]]]] := cM D E near_DE.
apply: (close_coupled t0 _ _ PQ); apply: within_good; first exact: coupled_within CP rare.
exact: coupled_within CQ rare'.
Qed.

End Coins.
