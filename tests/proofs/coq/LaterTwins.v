(** What is false, continued: the basic filter, and what is composed of Gaussian pairs. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum ssrint rat order.
Require Import Definitions Mechanisms Sums Filters FriendlyLift BasicFilter.
Require Import Domination Gaussian GaussianParts Premises Twins.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Let Q : realFieldType := [realFieldType of rat].

(** However the records of two sides are put side by side, the chances of each record move by at
    least their difference. *)
Section Distance.
Variables (R : realFieldType) (X : eqType).

Definition chance_of (coins : seq (X * R)) (x : X) : R := \sum_(c <- coins | c.1 == x) c.2.

Lemma chance_of_side (side : option R * option R -> option R) (moves : seq (sided R X)) x :
  chance_of (coins_of side moves) x = \sum_(m <- moves | m.1 == x) odflt 0 (side m.2).
Proof.
rewrite /chance_of /coins_of; elim: moves => [|[y pq] moves IH] /=; first by rewrite !big_nil.
rewrite big_cons -IH /=; case: (side pq) => [p|] /=; last by case: (y == x); rewrite ?add0r.
by rewrite big_cons.
Qed.

Lemma distance_at_least (D E : seq (X * R)) (moves : seq (sided R X)) (xs : seq X) : uniq xs ->
  D = coins_of fst moves -> E = coins_of snd moves ->
  \sum_(x <- xs) `|chance_of D x - chance_of E x| <= distance [seq as_move m | m <- moves].
Proof.
move=> uxs -> ->; pose far (m : sided R X) : R := `|odflt 0 m.2.1 - odflt 0 m.2.2|.
apply: (@le_trans _ _ (\sum_(x <- xs) \sum_(m <- moves | m.1 == x) far m)).
  by apply: ler_sum => x _; rewrite !chance_of_side -sumrB; exact: ler_norm_sum.
rewrite (exchange_big_dep xpredT) //= /distance big_map; apply: ler_sum => m _.
case in_xs: (m.1 \in xs).
  by rewrite big_mkcond (bigD1_seq m.1) //= eqxx big1 ?addr0 // => x; rewrite eq_sym => /negbTE->.
by rewrite big1_seq // => x /andP[/eqP<-]; rewrite in_xs.
Qed.

Lemma not_stable (near : seq X -> seq X -> Prop) (friendly : seq X -> Prop) (moved : R)
    (coins : seq X -> seq (X * R)) D E xs :
  near D E -> uniq xs -> moved < \sum_(x <- xs) `|chance_of (coins D) x - chance_of (coins E) x| ->
  ~ stable near friendly moved coins.
Proof.
move=> near_DE uxs lt [_ /(_ D E near_DE) [moves [cD [cE le_moved]]]].
by rewrite -distance_sided in le_moved; have := lt_le_trans lt (le_trans (distance_at_least uxs cD cE) le_moved); rewrite ltxx.
Qed.

End Distance.

(** The chances of the basic filter among [n] records, as whole parts of [n]. *)
Lemma chance_listed (friends : rel nat) (D : seq nat) x : uniq D ->
  chance_of (basic_coins Q friends D) x =
  (if x \in D then (2 * degree friends D x - size D)%N else 0%N)%:R / (size D)%:R.
Proof.
move=> uD; rewrite /chance_of /basic_coins big_map /=; case: ifP => in_D; last first.
  rewrite mul0r big1_seq // => y /andP[/eqP->]; by rewrite in_D.
by rewrite big_mkcond (bigD1_seq x) //= eqxx big1 ?addr0 // => y /negbTE->.
Qed.

(** basic_filter under add-remove: friends that need not be mutual move three records by 7/3. *)
Theorem basic_filter_add_remove_twin : ~ forall friends : rel nat,
  stable (@add_remove nat) (share_friends friends) 2 (basic_coins Q friends).
Proof.
move=> /(_ (fun x y => (x == 0%N) || (y != 0%N))).
apply: (@not_stable _ _ _ _ _ _ [:: 0%N; 1%N; 2%N] [:: 1%N; 2%N] [:: 0%N; 1%N; 2%N]) => //.
  by left; exists [::], 0%N, [:: 1%N; 2%N].
rewrite !big_cons big_nil !chance_listed; exact: isT.
Qed.

(** basic_filter under replace: the same, by 10/3. *)
Theorem basic_filter_replace_twin : ~ forall friends : rel nat,
  stable (@replace nat) (share_friends friends) 3%:R (basic_coins Q friends).
Proof.
move=> /(_ (fun x y => if x == 2%N then y != 3%N else y != 2%N)).
apply: (@not_stable _ _ _ _ _ _ [:: 0%N; 1%N; 2%N] [:: 0%N; 1%N; 3%N] (iota 0 4)) => //.
  by exists [:: 0%N; 1%N], 2%N, 3%N, [::].
rewrite !big_cons big_nil !chance_listed; exact: isT.
Qed.

(** Under replace 2 is too little, of friends in no order: 7/3. *)
Theorem basic_filter_replace_two_twin : ~ forall friends : rel nat, symmetric friends ->
  stable (@replace nat) (share_friends friends) 2 (basic_coins Q friends).
Proof.
move=> /(_ (fun x y => (x != 2%N) && (y != 2%N))) twin; have {twin} := twin _.
move=> /(_ (fun x y => andbC _ _)).
apply: (@not_stable _ _ _ _ _ _ [:: 0%N; 1%N; 2%N] [:: 0%N; 1%N; 3%N] (iota 0 4)) => //.
  by exists [:: 0%N; 1%N], 2%N, 3%N, [::].
rewrite !big_cons big_nil !chance_listed; exact: isT.
Qed.

(** compose_gdp without the premise about products: at mu^2 = 1 all is told, at 2 nothing. *)
Theorem compose_gdp_twin : ~ forall (gaussian : Q -> (nat -> Q) -> (nat -> Q) -> Prop),
  (forall m A B, gaussian m A B -> law A /\ law B /\ total A 1 /\ total B 1) ->
  (forall m, 0 <= m -> exists A B, gaussian m A B) ->
  (forall m A B A' B', gaussian m A B -> gaussian m A' B' ->
     exists C D, gaussian m C D /\ coarser A B C D /\ coarser A' B' C D) ->
  forall (near : seq nat -> seq nat -> Prop) m n (M : mechanism nat Q nat_eqType)
    (K : nat -> mechanism nat Q nat_eqType), 0 <= m -> 0 <= n -> has_laws M ->
  (forall D E, near D E -> gdp gaussian m (M D) (M E)) ->
  (forall x D E, near D E -> gdp gaussian n (K x D) (K x E)) -> forall D E, near D E ->
  gdp gaussian (m + n) (joint (M D) (fun x => K x D)) (joint (M E) (fun x => K x E)).
Proof.
pose gaussian (m : Q) (A B : nat -> Q) := A = certain Q 0%N /\ B = certain Q (nat_of_bool (m == 1)).
move=> /(_ gaussian) twin.
have images m A B : gaussian m A B -> law A /\ law B /\ total A 1 /\ total B 1.
  case=> -> ->; have [l0 t0] := certain_total Q 0%N.
  by have [l1 t1] := certain_total Q (nat_of_bool (m == 1)).
have {}twin := twin images (fun m _ => ex_intro _ _ (ex_intro _ _ (conj erefl erefl))).
have refined m A B A' B' : gaussian m A B -> gaussian m A' B' ->
    exists C D, gaussian m C D /\ coarser A B C D /\ coarser A' B' C D.
  by move=> [-> ->] [-> ->]; do 2!eexists; split; [split; reflexivity | split=> s us; exists s].
pose tells (D : seq nat) := certain Q (size D).
pose near (D E : seq nat) := D = [::] /\ E = [:: 0%N].
have lM : has_laws tells by move=> D; exact: certain_law.
have one D E : near D E -> gdp gaussian 1 (tells D) (tells E).
  by case=> -> -> a b d a0 b0 all1; exact: (all1 _ _ (conj erefl erefl)).
have same : all_tested gaussian (1 + 1) 1 1 0.
  by move=> A B [-> ->] s us; rewrite addr0.
have := twin refined near 1 1 tells (fun=> tells) isT isT lM one (fun=> one) _ _ (conj erefl erefl).
by move=> /(_ 1 1 0 isT isT same [:: (0%N, 0%N)] isT); rewrite /mass !big_seq1.
Qed.

(** privacy_filter: within the budget on every path, not on one. *)
Fixpoint within_budget_on_a_path (gaussian : Q -> (nat -> Q) -> (nat -> Q) -> Prop) (T : eqType) m e
    (steps : session Q T) : Prop :=
  match steps with
  | Done => 0 <= m /\ 0 <= e
  | Step m1 e1 P P' L next =>
      0 <= m1 <= m /\ 0 <= e1 <= e /\ law P /\ law L /\ cut e1 P P' /\ gdp gaussian m1 P' L /\
      exists x, within_budget_on_a_path gaussian (m - m1) (e - e1) (next x)
  end.

Theorem privacy_filter_twin : ~ forall (T : eqType) m e (steps : session Q T),
  within_budget_on_a_path (@model Q) m e steps ->
  approximate_gdp (@model Q) m e (left_law steps) (right_law steps).
Proof.
pose c (k : nat) := certain Q k; pose stop := Done Q nat.
pose after (x : nat) :=
  if x is 0%N then Step 1 0 (c 0%N) (c 0%N) (c 1%N) (fun=> stop) else stop.
move=> /(_ nat_eqType 0 0 (Step 0 0 (c 0%N) (c 0%N) (c 0%N) after)) twin.
have lc k : law (c k) by exact: certain_law.
have uncut k : cut 0 (c k) (c k).
  by split=> [x|s us]; rewrite ?addr0 // lexx (law_ge0 (lc k)).
have nothing : gdp (@model Q) 0 (c 0%N) (c 0%N).
  apply: (gdp_same (@model_images Q) (@model_some Q)) => //.
have [|P' [[_ /(_ [:: [:: 0%N; 0%N]] isT) kept] tests]] := twin.
  by do 6!split=> //; exists 1%N; rewrite /= subr0.
have same : all_tested (@model Q) 0 1 1 0.
  by move=> A B [_ [-> ->]] s us; rewrite addr0 eqxx.
have := tests 1 1 0 isT isT same [:: [:: 0%N; 0%N]] isT; move: kept.
rewrite /mass !big_seq1 !addr0 !mul1r /= => low high.
by have := le_trans low high.
Qed.

(** approximate_gdp_profile: paying for the part that is cut off. *)
Theorem approximate_gdp_profile_twin : ~ forall (T : eqType) m e t d (P L : T -> Q),
  0 <= t -> (forall A B, @model Q m A B -> close t d A B) -> approximate_gdp (@model Q) m e P L ->
  close t d P L.
Proof.
move=> /(_ unit_eqType 0 1 1 0 (certain Q tt) (fun=> 0) ler01) twin.
have all_close A B : @model Q 0 A B -> close 1 0 A B.
  by move=> [_ [-> ->]] s us; rewrite eqxx mul1r addr0.
have [_ one] : law (certain Q tt) by exact: certain_law.
suff /(twin all_close) /(_ [:: tt] isT) : approximate_gdp (@model Q) 0 1 (certain Q tt) (fun=> 0 : Q).
  by rewrite /mass !big_seq1 mulr0 addr0 /certain eqxx ler10.
exists (fun=> 0); split; last by apply: (gdp_none (@model_some Q)).
split=> [x|s us]; first by rewrite lexx /= ler0n.
by rewrite [X in _ <= X + _]/mass big1 // add0r; exact: one.
Qed.
