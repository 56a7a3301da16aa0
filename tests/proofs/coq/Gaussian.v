(** Gaussian differential privacy from four premises about Gaussian pairs, its approximate form, and
    the privacy filter: steps that are chosen after seeing what the earlier ones released. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum order.
From mathcomp Require Import ring.
Require Import Definitions Mechanisms Sums Transfer Products Domination.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Gaussian.
Variable R : realFieldType.
Implicit Types (a b d m n e : R).

(** [gaussian m A B]: what some map to finitely many cells makes of N(0, 1) and N(mu, 1), m = mu^2. *)
Variable gaussian : R -> (nat -> R) -> (nat -> R) -> Prop.
Notation session := (session R).
Notation all_tested := (@all_tested R gaussian).
Notation gdp := (@gdp R gaussian).
Notation approximate_gdp := (@approximate_gdp R gaussian).
Notation within_budget := (@within_budget R gaussian).

(** Premise 1: these are laws, of all of the mass, and there is one. *)
Hypothesis images_are_laws : forall m A B, gaussian m A B ->
  law A /\ law B /\ total A 1 /\ total B 1.
Hypothesis some_image : forall m, 0 <= m -> exists A B, gaussian m A B.

(** Premise 2: two images have a common refinement. *)
Hypothesis common_refinement : forall m A B A' B', gaussian m A B -> gaussian m A' B' ->
  exists C D, gaussian m C D /\ coarser A B C D /\ coarser A' B' C D.

(** Premise 3: the squares of mu add up in products. *)
Hypothesis products_add : forall m n A B C D, gaussian m A B -> gaussian n C D ->
  forall a b d, 0 <= a -> 0 <= b -> all_tested (m + n) a b d ->
  tested a b d (joint A (fun=> C)) (joint B (fun=> D)).

(** Sets of cells of several images are sets of cells of one. *)
Lemma refine_all (T : eqType) m (xs : seq T) (f : T -> (nat -> R) * (nat -> R) * seq nat) :
  0 <= m -> (forall x, gaussian m (f x).1.1 (f x).1.2 /\ uniq (f x).2) ->
  exists C D, gaussian m C D /\ exists l : T -> seq nat, (forall x, uniq (l x)) /\
    {in xs, forall x, mass (f x).1.1 (f x).2 = mass C (l x) /\ mass (f x).1.2 (f x).2 = mass D (l x)}.
Proof.
move=> m0 ok; elim: xs => [|x xs [C [D [CD [l [ul same]]]]]].
  by have [A [B AB]] := some_image m0; exists A, B; split=> //; exists (fun=> [::]); split.
have [gx ux] := ok x; have [C' [D' [CD' [fx old]]]] := common_refinement gx CD.
have [lx [ulx [Ax Bx]]] := fx _ ux.
exists C', D'; split=> //; elim: xs same => [|y ys IH] same.
  exists (fun=> lx); split=> // y; rewrite inE => /eqP->; by [].
have [|l' [ul' same']] := IH; first by move=> z z_ys; apply: same; rewrite inE z_ys orbT.
have [ly [uly [Ay By]]] := old _ (ul y).
exists (fun z => if z == y then (if z == x then lx else ly) else l' z); split.
  by move=> z; case: (z == y) => //; case: (z == x).
move=> z; rewrite !inE; case: (eqVneq z y) => [->|zy] in_z.
  case: (eqVneq y x) => [->|yx]; first by [].
  by have [-> ->] := same y (mem_head _ _).
by apply: same'; rewrite inE.
Qed.

Lemma mass_pairs (T : eqType) (F : T -> R) (G : nat -> R) (xs : seq T) (l : T -> seq nat) :
  mass (joint F (fun=> G)) [seq (x, y) | x <- xs, y <- l x] = \sum_(x <- xs) F x * mass G (l x).
Proof. by rewrite /mass big_allpairs_dep; apply: eq_bigr => x _; rewrite mulr_sumr. Qed.

Lemma gdp_second (T U : eqType) n (P Q : T -> R) (K L : T -> U -> R) a b d :
  0 <= n -> 0 <= a -> 0 <= b -> (forall x, 0 <= P x) -> (forall x, 0 <= Q x) -> (forall x, gdp n (K x) (L x)) ->
  (forall A B, gaussian n A B -> tested a b d (joint P (fun=> A)) (joint Q (fun=> B))) ->
  tested a b d (joint P K) (joint Q L).
Proof.
move=> n0 a0 b0 P0 Q0 KL PQ s us; rewrite -ler_subl_addl !mass_joint !mulr_sumr -sumrB.
have [A0 [B0 AB0]] := some_image n0.
apply: (@sum_of_tested R T _ (fun i => gaussian n i.1.1 i.1.2 /\ uniq i.2)
  (fun x => a * (P x * mass (K x) (beside s x)) - b * (Q x * mass (L x) (beside s x)))
  (fun x i => a * (P x * mass i.1.1 i.2) - b * (Q x * mass i.1.2 i.2)) (firsts s) d (A0, B0, [::])).
- by [].
- exact: firsts_uniq.
- move=> x e le_e; rewrite ler_subl_addl !mulrA.
  apply: (KL x) (beside_uniq x us); try exact: mulr_ge0.
  move=> A B AB l ul; have := le_e (A, B, l) (conj AB ul); rewrite ler_subl_addl !mulrA //.
move=> f ok; have [C [D [CD [l [ul same]]]]] := refine_all (firsts s) n0 ok.
have us' : uniq [seq (x, y) | x <- firsts s, y <- l x].
  apply: allpairs_uniq_dep => [|x _|]; [exact: firsts_uniq | exact: ul |].
  by move=> [x y] [x' y'] _ _ /= [-> ->].
have := PQ _ _ CD _ us'; rewrite !mass_pairs -ler_subl_addl => le_d; apply: le_trans le_d.
rewrite sumrB !mulr_sumr le_eqVlt; apply/orP; left; apply/eqP; congr (_ - _);
  by apply: eq_big_seq => x x_s; have [e1 e2] := same x x_s; rewrite ?e1 ?e2.
Qed.

Lemma tested_swapped (T U : eqType) a b d (P Q : T -> R) (A B : U -> R) :
  tested a b d (joint A (fun=> P)) (joint B (fun=> Q)) ->
  tested a b d (joint P (fun=> A)) (joint Q (fun=> B)).
Proof.
move=> AP s us.
have us' : uniq [seq (z.2, z.1) | z <- s] by rewrite map_inj_uniq // => -[x y] [x' y'] [-> ->].
have := AP _ us'; rewrite /mass !big_map /joint /=.
by under eq_bigr do rewrite mulrC; under [X in _ <= _ * X + _]eq_bigr do rewrite mulrC.
Qed.

Lemma gdp_joint (T U : eqType) m n (P Q : T -> R) (K L : T -> U -> R) :
  0 <= m -> 0 <= n -> (forall x, 0 <= P x) -> (forall x, 0 <= Q x) -> gdp m P Q -> (forall x, gdp n (K x) (L x)) ->
  gdp (m + n) (joint P K) (joint Q L).
Proof.
move=> m0 n0 P0 Q0 PQ KL a b d a0 b0 all_mn; apply: (gdp_second n0 a0 b0 P0 Q0 KL) => A B AB.
have [lA [lB _]] := images_are_laws AB.
apply: tested_swapped.
apply: (gdp_second (n := m) m0 a0 b0 (law_ge0 lA) (law_ge0 lB) (fun=> PQ)) => C D CD.
by apply: tested_swapped; exact: products_add CD AB _ _ _ a0 b0 all_mn.
Qed.

(** The rule about mechanisms: mu^2 adds up, the second chosen after the first. *)
Theorem compose_gdp (X T U : eqType) (near : seq X -> seq X -> Prop) m n (M : mechanism X R T)
    (K : T -> mechanism X R U) :
  0 <= m -> 0 <= n -> has_laws M -> (forall D E, near D E -> gdp m (M D) (M E)) ->
  (forall x D E, near D E -> gdp n (K x D) (K x E)) ->
  forall D E, near D E -> gdp (m + n) (joint (M D) (fun x => K x D)) (joint (M E) (fun x => K x E)).
Proof.
move=> m0 n0 lM gM gK D E near_DE.
apply: gdp_joint => //; [exact: law_ge0 | exact: law_ge0 | exact: gM | by move=> x; exact: gK].
Qed.

Lemma cut_joint (T U : eqType) e e' (P P' : T -> R) (K K' : T -> U -> R) :
  0 <= e -> 0 <= e' -> law P -> (forall x, law (K x)) -> cut e P P' -> (forall x, cut e' (K x) (K' x)) ->
  cut (e + e') (joint P K) (joint P' K').
Proof.
move=> e0 e0' lP lK [PP cutP] KK; split.
  move=> z; rewrite /joint; have /andP[p0 pP] := PP z.1; have /andP[k0 kK] := (KK z.1).1 z.2.
  by apply/andP; split; [exact: mulr_ge0 | exact: ler_pmul].
move=> s us; rewrite !mass_joint.
apply: (@le_trans _ _ (\sum_(x <- firsts s) (P' x * mass (K' x) (beside s x) + (P x - P' x + P x * e')))).
  apply: ler_sum => x _; have /andP[p0 pP] := PP x.
  have cK := (KK x).2 _ (beside_uniq x us); have k1 := mass_le1 (lK x) (beside_uniq x us).
  have K0 : 0 <= mass (K x) (beside s x) by apply: mass_ge0; exact: law_ge0.
  set k := mass (K x) _ in cK k1 K0 *; set k' := mass (K' x) _ in cK *.
  have -> : P x * k = P' x * k + (P x - P' x) * k by ring.
  apply: (@le_trans _ _ (P' x * (k' + e') + (P x - P' x))).
    by apply: ler_add; [exact: ler_wpmul2l | rewrite ler_pimulr // subr_ge0].
  have -> : P' x * (k' + e') + (P x - P' x) = P' x * k' + (P x - P' x + P' x * e') by ring.
  by rewrite ler_add2l ler_add2l; apply: ler_wpmul2r.
rewrite big_split /= ler_add2l big_split /=; apply: ler_add.
  by rewrite sumrB ler_subl_addl; exact: cutP (firsts_uniq s).
rewrite -mulr_suml -[X in _ <= X]mul1r; apply: ler_wpmul2r => //.
by exact: mass_le1 (firsts_uniq s).
Qed.

Fixpoint cut_law (T : eqType) (steps : session T) (xs : seq T) : R :=
  match steps, xs with
  | Done, [::] => 1
  | Step _ _ _ P' _ next, x :: rest => P' x * cut_law (next x) rest
  | _, _ => 0
  end.

(** A draw and what follows it, as a list. *)
Lemma mass_listed (T : eqType) (P : T -> R) (K : T -> seq T -> R) (N : seq T -> R) s :
  N [::] = 0 -> (forall x xs, N (x :: xs) = P x * K x xs) ->
  mass N s = mass (joint P K) (pmap (@uncons T) s).
Proof.
move=> N0 Nx; rewrite /mass; elim: s => [|xs s IH]; first by rewrite !big_nil.
by rewrite big_cons IH; case: xs => [|x xs] /=; rewrite ?N0 ?add0r // Nx big_cons.
Qed.

Lemma one_law (T : eqType) (N : seq T -> R) : N [::] = 1 -> (forall x xs, N (x :: xs) = 0) -> law N.
Proof.
move=> N1 N0; split=> [[|x xs]|s us]; rewrite ?N1 ?N0 ?ler01 ?lexx // /mass.
case nil_s: ([::] \in s).
  by rewrite (bigD1_seq [::]) //= N1 big1 ?addr0 // => -[|x xs] //; rewrite N0.
by rewrite big1_seq ?ler01 // => -[|x xs] /=; rewrite ?nil_s // N0.
Qed.

Lemma gdp_same (T : eqType) m (N : T -> R) : 0 <= m -> law N -> gdp m N N.
Proof.
move=> m0 lN a b d a0 b0 all_m; have [A [B AB]] := some_image m0.
have [_ [lB [_ _]]] := images_are_laws AB; have [lA [_ [totA _]]] := images_are_laws AB.
have d0 : 0 <= d by have := all_m _ _ AB [::] isT; rewrite /mass !big_nil !mulr0 add0r.
have a_le : a <= b + d.
  move: a0; rewrite le_eqVlt => /orP[/eqP<-|a_pos]; first exact: addr_ge0.
  rewrite -[a]mulr1 -ler_pdivl_mull // mulrC; apply: totA.2 => s us.
  rewrite ler_pdivl_mulr // mulrC; apply: le_trans (all_m _ _ AB s us) _; rewrite ler_add2r.
  by rewrite -[X in _ <= X]mulr1; apply: ler_wpmul2l => //; exact: mass_le1.
move=> s us; have N0 := mass_ge0 s (law_ge0 lN); have N1 := mass_le1 lN us.
rewrite -ler_subl_addl -mulrBl; case: (lerP 0 (a - b)) => sign.
  apply: (@le_trans _ _ (a - b)); first by rewrite ler_pimulr.
  by rewrite ler_subl_addl.
by apply: le_trans d0; apply: mulr_le0_ge0 => //; exact: ltW.
Qed.

Lemma cut_law_of (T : eqType) e (P P' : T -> R) : law P -> cut e P P' -> law P'.
Proof.
move=> lP [PP _]; split=> [x|s us]; first by case/andP: (PP x).
by apply: le_trans (mass_le1 lP us); apply: ler_sum => x _; case/andP: (PP x).
Qed.

Theorem privacy_filter (T : eqType) m e (steps : session T) : within_budget m e steps ->
  law (left_law steps) /\ law (right_law steps) /\
  approximate_gdp m e (left_law steps) (right_law steps).
Proof.
move=> ok; suff [lL [lR [cutL gdpL]]] : law (left_law steps) /\ law (right_law steps) /\
    cut e (left_law steps) (cut_law steps) /\ gdp m (cut_law steps) (right_law steps).
  by split=> //; split=> //; exists (cut_law steps).
elim: steps m e ok => [|m1 e1 P P' Q next IH] m e /=.
  move=> [m0 e0]; have one : law (left_law (Done R T)) by apply: one_law.
  split=> //; split; first exact: one.
  split; last by apply: gdp_same.
  split=> [xs|s us]; last by rewrite ler_addl.
  by rewrite lexx andbT; exact: (law_ge0 one).
move=> [/andP[m10 m1m] [/andP[e10 e1e] [lP [lQ [cutP [gdpP ok]]]]]].
have sub x := IH x _ _ (ok x).
have lP' := cut_law_of lP cutP.
have m20 : 0 <= m - m1 by rewrite subr_ge0.
have e20 : 0 <= e - e1 by rewrite subr_ge0.
have lLn x : law (left_law (next x)) by case: (sub x).
have lRn x : law (right_law (next x)) by case: (sub x) => _ [].
have cutn x : cut (e - e1) (left_law (next x)) (cut_law (next x)) by case: (sub x) => _ [_ []].
have gdpn x : gdp (m - m1) (cut_law (next x)) (right_law (next x)) by case: (sub x) => _ [_ []].
have listed (A : T -> R) (K : T -> seq T -> R) (N : seq T -> R) : law A -> (forall x, law (K x)) ->
    N [::] = 0 -> (forall x xs, N (x :: xs) = A x * K x xs) -> law N.
  move=> lA lK N0 Nx; split=> [[|x xs]|s us]; rewrite ?N0 ?Nx //.
    by apply: mulr_ge0; exact: law_ge0.
  by rewrite (mass_listed s N0 Nx); apply: mass_le1 (uncons_uniq us); exact: joint_law.
have [cut_below cut_sum] := cut_joint e10 e20 lP lLn cutP cutn.
have e_sum : e1 + (e - e1) = e by ring.
have m_sum : m1 + (m - m1) = m by ring.
split; first exact: (listed P (fun x => left_law (next x))).
split; first exact: (listed Q (fun x => right_law (next x))).
split.
  split=> [[|x xs]|s us] /=; first by rewrite lexx.
    exact: (cut_below (x, xs)).
  rewrite (@mass_listed _ P (fun x => left_law (next x))) //.
  rewrite (@mass_listed _ P' (fun x => cut_law (next x))) // -[X in _ + X]e_sum.
  exact: cut_sum (uncons_uniq us).
move=> a b d a0 b0 all_m s us.
rewrite (@mass_listed _ P' (fun x => cut_law (next x))) //.
rewrite (@mass_listed _ Q (fun x => right_law (next x))) //.
apply: (gdp_joint m10 m20 (law_ge0 lP') (law_ge0 lQ) gdpP gdpn a0 b0) (uncons_uniq us).
by rewrite m_sum.
Qed.

(** What this means in (t, d): the profile of the Gaussian pair, and the additive part. *)
Theorem approximate_gdp_profile (T : eqType) m e t d (P Q : T -> R) :
  0 <= t -> (forall A B, gaussian m A B -> close t d A B) -> approximate_gdp m e P Q ->
  close t (d + e) P Q.
Proof.
move=> t0 all_m [P' [[_ cutP] gdpP]] s us; apply: le_trans (cutP s us) _.
rewrite addrA ler_add2r; have := gdpP 1 t d ler01 t0; rewrite /tested.
move=> /(_ _ s us); rewrite mul1r; apply=> A B AB l ul; rewrite mul1r; exact: all_m AB _ ul.
Qed.

End Gaussian.
