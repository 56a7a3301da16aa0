(** Released numbers: what nobody can change, how rarely one misses, what is built from one. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum ssrint order.
From mathcomp Require Import ring zify.
Require Import Definitions Mechanisms Sums Transfer Products Events Hypotheses AboveThreshold Noise.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Lemma misses_above (smaller : bool) (a b y shift slack : int) (moved : nat) :
  `|a - b| <= moved%:Z -> ~~ (y <= side smaller a b - slack) ->
  missing true smaller shift slack moved <= y - (a - shift).
Proof. rewrite /side /missing minElt maxElt; case: smaller; case: ltP => /=; lia. Qed.

Lemma misses_below (smaller : bool) (a b y shift slack : int) (moved : nat) :
  `|a - b| <= moved%:Z -> ~~ (side smaller a b - slack <= y) ->
  missing false smaller shift slack moved <= - (y - (a - shift)).
Proof. rewrite /side /missing minElt maxElt; case: smaller; case: ltP => /=; lia. Qed.

Section Releases.
Variables (R : realFieldType) (X : eqType).
Implicit Types (near : seq X -> seq X -> Prop) (t d e : R).

(** What no neighbor can change may be released as it is. *)
Theorem public_value near (V : eqType) (query : seq X -> V) :
  (forall D E, near D E -> query D = query E) -> private near 1 0 (fun D => certain R (query D)).
Proof. by move=> same D E near_DE s _; rewrite (same D E near_DE) mul1r addr0. Qed.

Theorem released_event near (at_most smaller : bool) (shift slack : int) (moved : nat) e
    (query : seq X -> int) (p above : int -> R) (H : seq (hypothesis X int_eqType)) :
  law p -> (forall z, p (- z) = p z) -> tail p above ->
  (forall D E, near D E -> `|query D - query E| <= moved%:Z) ->
  above (missing at_most smaller shift slack moved) <= e ->
  rarely_fails (compared at_most smaller slack query) H near e
    (fun D y => p (y - (query D - shift))).
Proof.
move=> lp sym tl moves le_e D E near_DE s us; apply: le_trans le_e.
have moved_DE := moves D E near_DE; have p0 z : 0 <= p z by exact: law_ge0.
pose off (y : int) := if at_most then y - (query D - shift) else - (y - (query D - shift)).
have us' : uniq [seq off y | y <- s].
  by rewrite map_inj_uniq // /off; case: (at_most) => y z; [exact: addIr | by move/oppr_inj/addIr].
apply: le_trans (mass_total (tl _) us'); rewrite /mass big_map; apply: ler_sum => y _.
rewrite /where_good; case: ifP => [/andP[_ fails]|_]; last by case: ifP.
suff -> : missing at_most smaller shift slack moved <= off y.
  by rewrite /off; case: (at_most); rewrite ?sym.
move: fails; rewrite /compared /off; case: (at_most); first exact: misses_above.
exact: misses_below.
Qed.

(** Under more, or under what says more. *)
Lemma under_implied near (T : eqType) t d (M : mechanism X R T) (H G : seq (hypothesis X T)) :
  (forall D E x, near D E -> every G D E x -> every H D E x) ->
  under H near t d M -> under G near t d M.
Proof.
move=> GH uM D E near_DE s us.
have cut (P : T -> R) : mass (where_good (every G D E) P) s =
    mass (where_good (every H D E) P) [seq x <- s | every G D E x].
  rewrite /mass big_filter [RHS]big_mkcond; apply: eq_bigr => x _; rewrite /where_good.
  by case: ifP => // /(GH D E x near_DE)->.
by rewrite !cut; apply: uM => //; exact: filter_uniq.
Qed.

(** A stage is built from what was released; each rests on a fact about the number that it was built
    from, which follows from what is assumed of the released one. *)
Theorem for_each_release near (T U : eqType) t d t' d' (M : mechanism X R T)
    (K : T -> mechanism X R U) (H : seq (hypothesis X T)) (G : seq (T -> hypothesis X U))
    (released : hypothesis X T) (built_from : T -> seq X -> seq X -> bool) :
  0 <= t -> 0 <= t' -> 0 <= d' -> has_laws M -> (forall x, has_laws (K x)) -> under H near t d M ->
  (forall x, under ((fun D E _ => built_from x D E) :: [seq g x | g <- G]) near t' d' (K x)) ->
  (forall D E x, near D E -> released D E x -> built_from x D E) ->
  under ([seq of_first (U := U) h | h <- released :: H] ++ [seq of_second g | g <- G]) near
    (t * t') (d + d') (fun D => joint (M D) (fun x => K x D)).
Proof.
move=> t0 t0' d0 lM lK uM uK gives.
have both := @compose_under R X near T U t d t' d' M K H
  ((fun x D E _ => built_from x D E) :: G) t0 t0' d0 lM lK uM uK.
apply: under_implied both => D E z near_DE; rewrite /every /= !all_cat /= => /and3P[released_z ok ->].
by rewrite ok /= andbT; exact: gives released_z.
Qed.

(** Of independent noisy scores one passes a threshold no more often than their number says. *)
Section Scores.
Variables (p above : int -> R) (threshold score : int).
Notation passed := (passed threshold).
Hypotheses (lp : law p) (tl : tail p above).

Let p0 z : 0 <= p z. Proof. exact: law_ge0. Qed.

Lemma above_ge0 w : 0 <= above w.
Proof. by have := mass_total (tl w) (isT : uniq [::]); rewrite /mass big_nil. Qed.

Lemma one_passes v l : v <= score -> uniq l ->
  mass (where_good (fun u => threshold < u) (fun u => p (u - v))) l <=
  above (threshold - score + 1).
Proof.
move=> vs ul; have ul' : uniq [seq u - v | u <- l] by rewrite map_inj_uniq //; exact: addIr.
apply: le_trans (mass_total (tl _) ul'); rewrite /mass big_map; apply: ler_sum => u _.
rewrite /where_good; case: ifP => [above_u|_]; last by case: ifP.
suff -> : threshold - score + 1 <= u - v by [].
by move: vs above_u; clear; lia.
Qed.

Lemma some_pass vs s : all (fun v => v <= score) vs -> uniq s ->
  mass (where_good passed (noisy p vs)) s <= (size vs)%:R * above (threshold - score + 1).
Proof.
set a := above _; have a0 : 0 <= a by exact: above_ge0.
elim: vs s => [|v vs IH] s /=.
  move=> _ _; rewrite mulr0n mul0r /mass big1 // => -[|u us] _; rewrite /where_good //.
  by case: ifP.
case/andP=> v_score scores us; set P := fun u => p (u - v).
pose first_passes := where_good (fun u => threshold < u) P; pose cs := pmap (@uncons int) s.
have lN : law (noisy p vs) by exact: noisy_law.
apply: (@le_trans _ _ (mass (joint first_passes (fun=> noisy p vs)) cs +
    mass (joint P (fun=> where_good passed (noisy p vs))) cs)).
  rewrite /mass /cs; elim: s {us cs} => [|xs s IHs]; first by rewrite !big_nil addr0.
  rewrite big_cons; case: xs => [|x xs] /=; first by rewrite /where_good /= add0r.
  rewrite !big_cons addrACA; apply: ler_add => //.
  rewrite /joint /first_passes /where_good /= -/(passed xs).
  case: (threshold < x) => /=; last first.
    by rewrite mul0r add0r; case: ifP; rewrite ?mulr0.
  rewrite ler_addl; apply: mulr_ge0; first exact: p0.
  by case: ifP => // _; exact: law_ge0.
have us' := uncons_uniq us; rewrite mulrS mulrDl mul1r 2!mass_joint; apply: ler_add.
  apply: le_trans (one_passes v_score (firsts_uniq cs)).
  apply: ler_sum => x _; rewrite ler_pimulr ?mass_le1 ?beside_uniq //.
  by rewrite /first_passes /where_good; case: ifP => // _; exact: p0.
have lP : law P.
  split=> [u|l ul]; first exact: p0.
  have ul' : uniq [seq u - v | u <- l] by rewrite map_inj_uniq //; exact: addIr.
  by have := mass_le1 lp ul'; rewrite /mass big_map.
have ka0 : 0 <= (size vs)%:R * a by rewrite mulr_ge0 ?ler0n.
apply: (@le_trans _ _ (\sum_(x <- firsts cs) P x * ((size vs)%:R * a))).
  by apply: ler_sum => x _; apply: ler_wpmul2l; [exact: p0 | exact: IH scores (beside_uniq x us')].
by rewrite -mulr_suml ler_pimull // mass_le1 // firsts_uniq.
Qed.

(** At most [records] have too few friends, and then a score of at most [score]: one is kept with
    probability [e] at most. *)
Theorem kept_by_noise (records : nat) e vs s :
  all (fun v => v <= score) vs -> (size vs <= records)%N ->
  records%:R * above (threshold - score + 1) <= e -> uniq s ->
  mass (where_good passed (noisy p vs)) s <= e.
Proof.
move=> scores few le_e us; apply: le_trans (some_pass scores us) (le_trans _ le_e).
by apply: ler_wpmul2r; [exact: above_ge0 | rewrite ler_nat].
Qed.

End Scores.

End Releases.
