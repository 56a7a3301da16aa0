(** Examples of what rests on the Gaussian premises, in the model that they have. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum ssrint rat order.
Require Import Definitions Mechanisms Sums Transfer Products Rules Domination Gaussian Premises.
Require Import DegreeLift DegreeExample Twins Examples.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Let Q : realFieldType := [realFieldType of rat].

(** The four premises, and something more. *)
Definition premises_and (R : realFieldType) (gaussian : R -> (nat -> R) -> (nat -> R) -> Prop)
    (more : Prop) : Prop :=
  (forall m A B, gaussian m A B -> law A /\ law B /\ total A 1 /\ total B 1) /\
  (forall m, 0 <= m -> exists A B, gaussian m A B) /\
  (forall m A B A' B', gaussian m A B -> gaussian m A' B' ->
     exists C D, gaussian m C D /\ coarser A B C D /\ coarser A' B' C D) /\
  (forall m n A B C D, gaussian m A B -> gaussian n C D -> forall a b d, 0 <= a -> 0 <= b ->
     all_tested gaussian (m + n) a b d -> tested a b d (joint A (fun=> C)) (joint B (fun=> D))) /\
  more.

Lemma model_premises (more : Prop) : more -> premises_and (@model Q) more.
Proof.
split; first exact: model_images. split; first exact: model_some.
by split; [exact: model_refined | split; [exact: model_products |]].
Qed.

(** In the model a positive mu^2 promises nothing, and 0 everything. *)
Lemma model_any (T : eqType) (m : Q) (P S : T -> Q) : 0 < m -> law P -> law S ->
  gdp (@model Q) m P S.
Proof.
move=> m0 lP lS a b d a0 b0 all_m s us.
have [A [B [_ [eA eB]]]] := model_some (ltW m0).
have /(_ [:: 0%N] isT) := all_m _ _ (conj (ltW m0) (conj eA eB)).
rewrite eA eB (gt_eqF m0) !mass_certain // mulr1 mulr0 add0r => ad.
apply: (@le_trans _ _ d); last by rewrite ler_addr mulr_ge0 // mass_ge0 //; exact: law_ge0.
by apply: le_trans ad; rewrite ler_pimulr // mass_le1.
Qed.

Lemma model_none (T : eqType) (e : Q) (P S : T -> Q) u :
  S u + e < P u -> ~ approximate_gdp (@model Q) 0 e P S.
Proof.
move=> far [P' [[_ /(_ [:: u] isT) kept] same]].
have all_m : all_tested (@model Q) 0 1 1 0 by move=> A B [_ [-> ->]] s _; rewrite eqxx addr0.
have := same 1 1 0 isT isT all_m [:: u] isT; move: kept far.
rewrite /mass !big_seq1 !mul1r addr0 => kept far le_S.
by have := lt_le_trans far (le_trans kept (ler_add le_S (lexx e))); rewrite ltxx.
Qed.

Lemma gdp_approximate (T : eqType) (m : Q) (P S : T -> Q) : law P -> gdp (@model Q) m P S ->
  approximate_gdp (@model Q) m 0 P S.
Proof.
move=> lP PS; exists P; split=> //; split=> [x|s _]; last by rewrite addr0.
by rewrite lexx andbT; exact: law_ge0.
Qed.

(** How many records there are, for certain; then their number and what was released before. *)
Theorem compose_gdp_example : exists (R : realFieldType)
    (gaussian : R -> (nat -> R) -> (nat -> R) -> Prop), premises_and gaussian (
  exists (X T U : eqType) (near : seq X -> seq X -> Prop) (m n : R) (M : mechanism X R T)
    (K : T -> mechanism X R U),
  0 <= m /\ 0 <= n /\ has_laws M /\ (forall D E, near D E -> gdp gaussian m (M D) (M E)) /\
  (forall x D E, near D E -> gdp gaussian n (K x D) (K x E)) /\
  (*told*) ~ forall D E, near D E ->
    gdp gaussian 0 (joint (M D) (fun x => K x D)) (joint (M E) (fun x => K x E))).
Proof.
pose M (D : seq nat) := certain Q (size D); pose K n (D : seq nat) := certain Q (size D + n)%N.
exists Q, (@model Q); apply: model_premises.
exists nat_eqType, nat_eqType, nat_eqType, (@add_remove nat), 1, 1, M, K.
have lM D : law (M D) by exact: certain_law.
have lK n D : law (K n D) by exact: certain_law.
do 2!(split; first by []); split; first exact: lM.
split; first by move=> D E _; apply: model_any.
split; first by move=> n D E _; apply: model_any.
move=> /(_ _ _ (one_more 0)) /gdp_approximate same.
have {}same := same (joint_law (lM _) (fun x => lK x _)).
by apply: (model_none (u := (1%N, 2%N))) same.
Qed.

(** What is left of a told bit where a third is cut off: nothing is told. *)
Definition third (x : bool) : Q := 1 / 3%:R.

Lemma third_cut b : cut (1 / 3%:R) (bit b) third.
Proof.
split=> [x|s us]; first by case: b; case: x.
rewrite -ler_subl_addl /mass -sumrB.
apply: le_trans (_ : 1 / 3%:R * mass (certain Q b) s <= _); last first.
  by rewrite -[X in _ <= X]mulr1; apply: ler_wpmul2l => //; exact: mass_le1 (certain_law Q b) us.
by rewrite /mass mulr_sumr; apply: ler_sum => x _; case: b; case: x.
Qed.

Lemma third_gdp b : gdp (@model Q) 0 third (bit b).
Proof.
have below x : third x <= bit b x by case: b; case: x.
apply: (GaussianParts.gdp_part _ below) => //.
by apply: (gdp_same (@model_images Q) (@model_some Q)) => //; case: (bit_law b).
Qed.

(** A bit of which a third is cut off; where it is set, what costs all of the rest. *)
Theorem privacy_filter_example : exists (R : realFieldType)
    (gaussian : R -> (nat -> R) -> (nat -> R) -> Prop), premises_and gaussian (
  exists (T : eqType) (m e : R) (steps : session R T),
  within_budget gaussian m e steps /\
  (*told*) ~ approximate_gdp gaussian 0 e (left_law steps) (right_law steps)).
Proof.
pose stop := Done Q bool.
pose sure b : bool -> Q := certain Q b.
pose after (b : bool) :=
  if b then Step 1 0 (sure true) (sure true) (sure false) (fun=> stop) else stop.
exists Q, (@model Q); apply: model_premises.
exists bool_eqType, 1, (1 / 3%:R), (Step 0 (1 / 3%:R) (bit true) third (bit false) after).
split; last exact: (model_none (u := [:: true; true])).
have [lt _] := bit_law true; have [lf _] := bit_law false.
have ls b : law (sure b) by exact: certain_law.
do 4!(split; first by []); split; first exact: third_cut.
split; first exact: third_gdp.
case=> /=; last by rewrite subr0 subrr.
do 2!(split; first by []); do 2!(split; first exact: ls); split.
  by split=> [x|s _]; [rewrite lexx andbT; exact: ler0n | rewrite addr0].
by split; first exact: model_any.
Qed.

(** In the model mu = 0 tells nothing, at t = 1 and delta = 0. *)
Theorem approximate_gdp_profile_example : exists (R : realFieldType)
    (gaussian : R -> (nat -> R) -> (nat -> R) -> Prop) (T : eqType) (m e t d : R) (P S : T -> R),
  0 <= t /\ (forall A B, gaussian m A B -> close t d A B) /\ approximate_gdp gaussian m e P S /\
  (*told*) ~ close t d P S.
Proof.
exists Q, (@model Q), bool_eqType, 0, (1 / 3%:R), 1, 0, (bit true), (bit false); split; first by [].
split; first by move=> A B [_ [-> ->]] s _; rewrite eqxx mul1r addr0.
split; first by exists third; split; [exact: third_cut | exact: third_gdp].
exact: (not_close (u := true)).
Qed.

(** A bit that is told twice, the second time turned around where it was told wrongly. *)
Theorem compose_dominated_example : exists (R : realFieldType) (T U V W : eqType) (P S : T -> R)
    (K L : T -> U -> R) (A B : V -> R) (C D : W -> R),
  law P /\ law S /\ law C /\ law D /\ dominated P S A B /\ (forall x, dominated (K x) (L x) C D) /\
  (*told*) ~ dominated (joint P K) (joint S L) A B.
Proof.
exists Q, bool_eqType, bool_eqType, bool_eqType, bool_eqType, (bit true), (bit false).
exists (fun x => bit x), (fun x => bit (~~ x)), (bit true), (bit false), (bit true), (bit false).
have [[lt _] [lf _]] := (bit_law true, bit_law false).
do 4!(split; first by []); split; first by move=> a b d _ _.
split=> [x a b d _ _ tests s us|single].
  have turned c : mass (bit (~~ c)) s = mass (bit c) [seq ~~ y | y <- s].
    by rewrite /mass big_map; apply: eq_bigr => -[] _; case: c.
  case: x; first exact: tests.
  rewrite (turned true) (turned false); apply: tests; rewrite map_inj_uniq //; exact: negb_inj.
apply: (@not_close _ 2%:R 0 (joint (bit true) (fun x => bit x))
  (joint (bit false) (fun x => bit (~~ x))) (true, true)) => // s us.
have := single 1 2%:R 0 isT isT _ s us; rewrite mul1r; apply=> l ul.
by rewrite mul1r; exact: bit_close ul.
Qed.

(** Every record is kept by a fair coin; then a bit of which a third is cut off is told. *)
Theorem noisy_degree_lift_example : exists (R : realFieldType)
    (gaussian : R -> (nat -> R) -> (nat -> R) -> Prop), premises_and gaussian (
  exists (X : eqType) (near friends : seq X -> seq X -> Prop) (T : eqType) (m n o e f most : R)
    (M : mechanism X R T) (keep : seq X -> seq (R * seq X)),
  0 <= m /\ 0 <= n /\ 0 <= o /\ 0 <= e /\ 0 <= f /\ m + n <= most /\ o <= most /\ has_laws M /\
  (forall A B, friends A B -> approximate_gdp gaussian n f (M A) (M B)) /\
  (forall D E, near D E ->
     kept_alike gaussian (fun A B => friends A B \/ A = B) m e keep D E \/
     kept_alike gaussian eq o e keep D E) /\
  (*told*) ~ forall D E, near D E ->
    approximate_gdp gaussian most e (on_kept keep M D) (on_kept keep M E)).
Proof.
exists Q, (@model Q); apply: model_premises.
exists nat_eqType, (@add_remove nat), (@add_remove nat), bool_eqType, 0, 0, 0, 0, (1 / 3%:R), 0.
exists noisy_bit, halves; do 7!(split; first by []); split; first exact: noisy_laws.
split.
  by move=> A B _; exists third; split; [exact: third_cut | exact: third_gdp].
split; first by move=> D E near_DE; left; exact: halves_kept_alike.
move=> /(_ _ _ (one_more 1)); apply: (model_none (u := true)).
by rewrite /on_kept /= !big_cons !big_nil.
Qed.
