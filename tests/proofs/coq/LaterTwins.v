(** What is false, continued: filters, coupled maps and Gaussian pairs. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum ssrint rat order.
Require Import Definitions Sums Transfer Products Rules Maps Filters FriendlyLift BasicFilter.
Require Import Domination Gaussian Premises Twins.
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
by have := lt_le_trans lt (le_trans (distance_at_least uxs cD cE) le_moved); rewrite ltxx.
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
by rewrite !big_cons big_nil !chance_listed.
Qed.

(** basic_filter under replace: the same, by 10/3. *)
Theorem basic_filter_replace_twin : ~ forall friends : rel nat,
  stable (@replace nat) (share_friends friends) 3%:R (basic_coins Q friends).
Proof.
move=> /(_ (fun x y => if x == 2%N then y != 3%N else y != 2%N)).
apply: (@not_stable _ _ _ _ _ _ [:: 0%N; 1%N; 2%N] [:: 0%N; 1%N; 3%N] (iota 0 4)) => //.
  by exists [:: 0%N; 1%N], 2%N, 3%N, [::].
by rewrite !big_cons big_nil !chance_listed.
Qed.

(** Under replace 2 is too little, of friends in no order: 7/3. *)
Theorem basic_filter_two_twin : ~ forall friends : rel nat, symmetric friends ->
  stable (@replace nat) (share_friends friends) 2 (basic_coins Q friends).
Proof.
move=> /(_ (fun x y => (x != 2%N) && (y != 2%N))) twin; have {twin} := twin _.
move=> /(_ (fun x y => andbC _ _)).
apply: (@not_stable _ _ _ _ _ _ [:: 0%N; 1%N; 2%N] [:: 0%N; 1%N; 3%N] (iota 0 4)) => //.
  by exists [:: 0%N; 1%N], 2%N, 3%N, [::].
by rewrite !big_cons big_nil !chance_listed.
Qed.

Lemma coupled_certain (R : realFieldType) (Y : eqType) (y z : Y) :
  coupling (certain R (y, z)) (certain R y) (certain R z).
Proof.
split; first exact: certain_law.
split=> u; rewrite /certain eq_sym.
  by apply: (image_certain (R := R) (y, z) (K := fun w v => (w.1 == v)%:R)) => x v; exact: ler0n.
by apply: (image_certain (R := R) (y, z) (K := fun w v => (w.2 == v)%:R)) => x v; exact: ler0n.
Qed.

(** coupled_map: results that are drawn together are neighbors, not two steps apart. *)
Theorem coupled_map_twin : ~ forall (near near' : seq nat -> seq nat -> Prop) (t d : Q)
    (S : seq nat -> seq nat -> Q) (M N : mechanism nat Q unit_eqType),
  1 <= t -> 0 <= d -> has_laws M -> (forall D, image (S D) M (N D)) ->
  (forall D E, near D E -> exists C, coupling C (S D) (S E) /\
     forall z, 0 < C z -> steps near' 2 z.1 z.2 \/ z.1 = z.2) ->
  private near' t d M -> private near t d N.
Proof.
have [h [hh /andP[h0 h1]]] : exists h : Q, h + h = 1 /\ 0 <= h < 1 by exists (1 / 2%:R).
pose f n : Q := match n with 0%N => 1 | 1%N => h | _ => 0 end.
have f01 n : 0 <= f n <= 1 by case: n => [|[|n]]; rewrite ?lexx ?ler01 //= h0 ltW.
pose twice (D : seq nat) := D ++ D.
move=> /(_ (@add_remove nat) (@add_remove nat) 1 h (fun D => certain Q (twice D)) (of_size f)) twin.
have {}twin := twin (fun D => of_size f (twice D)) isT h0 (of_size_laws f01).
have im D : image (certain Q (twice D)) (of_size f) (of_size f (twice D)).
  by apply: image_certain => E u; case/andP: (f01 (size E)).
have half D E : removed D E -> steps (@add_remove nat) 2 (twice D) (twice E) /\
    steps (@add_remove nat) 2 (twice E) (twice D).
  case=> b [x [a [-> ->]]]; have step F : removed (b ++ x :: a ++ F) (b ++ a ++ F).
    by exists b, x, (a ++ F).
  have last_step : removed ((b ++ a) ++ b ++ x :: a) ((b ++ a) ++ b ++ a).
    by exists ((b ++ a) ++ b), x, a; rewrite !catA.
  have first_step : removed ((b ++ x :: a) ++ b ++ x :: a) ((b ++ a) ++ b ++ x :: a).
    by rewrite -!catA; exact: step.
  split; exists ((b ++ a) ++ b ++ x :: a); split.
  - by left.
  - by exists (twice (b ++ a)); split; first left.
  - by right.
  - by exists (twice (b ++ x :: a)); split; first right.
have {}twin := twin im _ _ [::] [:: 0%N] _ [:: tt] isT.
suff : (1 : Q) <= 1 * 0 + h by rewrite mul1r add0r leNgt h1.
move: twin; rewrite /mass !big_seq1; apply.
- move=> D E near_DE; exists (certain Q (twice D, twice E)).
  split=> [|z]; first exact: coupled_certain.
  rewrite /certain; case: eqP => [->|_]; rewrite ?ltxx // => _; left.
  by case: near_DE => /half[].
- by apply: private_of_size => // -[|[|n]] /=; rewrite !mul1r ?hh ?add0r ?ler_addr ?ler01.
- by right; exists [::], 0%N, [::].
Qed.

(** The coupling that coupled_map asks for can be had: one coin says for both sides whether all
    records are passed on, or none. *)
Section Coupled.
Variables (R : realFieldType) (X : eqType) (p : R).
Hypothesis p01 : 0 <= p <= 1.

Definition mixed (T : eqType) (a b : T) (x : T) : R := p * certain R a x + (1 - p) * certain R b x.

Lemma mixed_ge0 (T : eqType) (a b x : T) : 0 <= mixed a b x.
Proof.
have [p0 p1] := andP p01.
by apply: addr_ge0; apply: mulr_ge0; rewrite ?subr_ge0 ?ler0n //.
Qed.

Lemma image_mixed (T U : eqType) (a b : T) (K : T -> U -> R) : (forall x u, 0 <= K x u) ->
  image (mixed a b) K (fun u => p * K a u + (1 - p) * K b u).
Proof.
move=> K0 u; set l := undup [:: a; b].
have at_one (c : T) : c \in l -> \sum_(x <- l) certain R c x * K x u = K c u.
  move=> c_l; rewrite (bigD1_seq c) ?undup_uniq //= /certain eqxx mul1r big1 ?addr0 //.
  by move=> x /negbTE->; rewrite mul0r.
have -> : p * K a u + (1 - p) * K b u = mass (fun x => mixed a b x * K x u) l.
  rewrite -(at_one a) ?mem_undup ?inE ?eqxx // -[K b u](at_one b) ?mem_undup ?inE ?eqxx ?orbT //.
  rewrite /mass !mulr_sumr -big_split; apply: eq_bigr => x _ /=.
  by rewrite /mixed [RHS]mulrDl !mulrA.
apply: total_finite => [|x|x]; first exact: undup_uniq.
  by apply: mulr_ge0 => //; exact: mixed_ge0.
rewrite mem_undup !inE negb_or /mixed /certain => /andP[/negbTE-> /negbTE->].
by rewrite !mulr0 addr0 mul0r.
Qed.

Lemma mixed_law (T : eqType) (a b : T) : law (mixed a b).
Proof.
have [p0 p1] := andP p01; split=> [x|s us]; first exact: mixed_ge0.
rewrite /mass big_split -!mulr_sumr /= -[X in _ <= X](subrK p) addrC.
by apply: ler_add; rewrite -[X in _ <= X]mulr1; apply: ler_wpmul2l; rewrite ?subr_ge0 //;
  exact: mass_le1 (certain_law R _) us.
Qed.

Theorem coupled_map_example (D E : seq X) : add_remove D E -> exists C,
  coupling C (mixed D [::]) (mixed E [::]) /\ forall z, 0 < C z -> add_remove z.1 z.2 \/ z.1 = z.2.
Proof.
move=> near_DE; exists (mixed (D, E) ([::], [::])); split.
  split; first exact: mixed_law.
  have K0 (side : seq X * seq X -> seq X) x u : 0 <= (side x == u)%:R :> R by exact: ler0n.
  by split=> u; rewrite /mixed /certain ![u == _]eq_sym;
    [exact: (image_mixed _ _ (K0 fst)) | exact: (image_mixed _ _ (K0 snd))].
move=> z; rewrite /mixed /certain; case: eqP => [->|_]; first by left.
by case: eqP => [->|_]; [right | rewrite !mulr0 addr0 ltxx].
Qed.

End Coupled.

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
  | Gaussian.Stop => 0 <= m /\ 0 <= e
  | Gaussian.Ask m1 e1 P P' L next =>
      0 <= m1 <= m /\ 0 <= e1 <= e /\ law P /\ law L /\ cut e1 P P' /\ gdp gaussian m1 P' L /\
      exists x, within_budget_on_a_path gaussian (m - m1) (e - e1) (next x)
  end.

Theorem privacy_filter_twin : ~ forall (T : eqType) m e (steps : session Q T),
  within_budget_on_a_path (@model Q) m e steps ->
  approximate_gdp (@model Q) m e (left_law steps) (right_law steps).
Proof.
pose c (k : nat) := certain Q k; pose stop := Gaussian.Stop Q nat.
pose after (x : nat) :=
  if x is 0%N then Gaussian.Ask 1 0 (c 0%N) (c 0%N) (c 1%N) (fun=> stop) else stop.
move=> /(_ nat_eqType 0 0 (Gaussian.Ask 0 0 (c 0%N) (c 0%N) (c 0%N) after)) twin.
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
