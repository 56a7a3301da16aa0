(** What is false of labels, thresholds and scores: theorems without one of their conditions. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum ssrint rat order.
From mathcomp Require Import zify.
Require Import Definitions Mechanisms Sums Transfer Products Events Rules Labels Chained Noise Histograms Domination Gaussian.
Require Import Premises GaussianParts DegreeLift GaussianHistograms Twins.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Let Q : realFieldType := [realFieldType of rat].

(** Labels that are the same for all records, for sure. *)
Lemma one_label (U : eqType) (K : seq unit -> U -> Q) n : (forall ls u, 0 <= K ls u) ->
  image (drawn (certain Q tt) n) K (K (nseq n tt)).
Proof.
move=> K0 u; have law_n := drawn_law n (certain_law Q tt).
have only ls : ls = nseq (size ls) tt by elim: ls => [|[] ls {1}->].
have one m : drawn (certain Q tt) m (nseq m tt) = 1.
  by rewrite /drawn; elim: m => //= m ->; rewrite /certain eqxx mulr1.
have -> : K (nseq n tt) u = mass (fun ls => drawn (certain Q tt) n ls * K ls u) [:: nseq n tt].
  by rewrite /mass big_seq1 one mul1r.
apply: total_finite => // [ls|ls]; first by rewrite mulr_ge0 // (law_ge0 law_n).
rewrite inE => ne; case: (eqVneq (drawn (certain Q tt) n ls) 0) => [->|/drawn_size e]; first by rewrite mul0r.
by move: ne; rewrite (only ls) e eqxx.
Qed.

(** A record that is 0 is told from another one, by a factor of 2. *)
Definition tells_zero (D : seq nat) (u : unit) : Q := if D is [:: 0%N] then 1 else 2%:R^-1.

Lemma tells_zero_laws : has_laws tells_zero.
Proof.
by move=> D; split=> [u|s /units[]->]; rewrite /mass ?big_nil ?big_seq1 // /tells_zero; case: D => [|[|x] [|y D]].
Qed.

Lemma tells_zero_private near : private near 2%:R 0 tells_zero.
Proof.
move=> D E _; apply: close_units => //; rewrite addr0 /tells_zero.
by case: D => [|[|x] [|y D]]; case: E => [|[|x'] [|y' E]].
Qed.

(** A block is listed once: what is released of it twice costs twice. *)
Theorem parallel_by_labels_replace_twin : ~ forall (labels : seq unit) (M : unit -> mechanism nat Q unit_eqType)
    (t d : Q) (A : unit -> Q) (N : mechanism nat Q (seq_eqType unit_eqType)),
  1 <= t -> 0 <= d -> law A -> (forall l, has_laws (M l)) -> (forall l, private (@replace nat) t d (M l)) ->
  by_labels labels M A N -> private (@replace nat) t d N.
Proof.
pose labels := [:: tt; tt]; pose M (_ : unit) := tells_zero.
pose N D := with_labels labels M D (nseq (size D) tt).
move=> /(_ labels M 2%:R 0 (certain Q tt) N isT isT (certain_law Q tt)) twin.
have drawn_N : by_labels labels M (certain Q tt) N.
  by move=> D; apply: one_label => ls; apply: law_ge0; apply: with_labels_law => l; exact: tells_zero_laws.
have near : replace [:: 0%N] [:: 1%N] by exists [::], 0%N, 1%N, [::].
have := twin (fun=> tells_zero_laws) (fun=> @tells_zero_private _) drawn_N _ _ near [:: [:: tt; tt]] isT.
by rewrite /mass !big_seq1 => /notF.
Qed.

Theorem chained_by_labels_replace_twin : ~ forall (M : unit -> seq unit -> mechanism nat Q unit_eqType) (t d : Q)
    (labels : seq unit) (A : unit -> Q) (N : mechanism nat Q (seq_eqType unit_eqType)),
  (forall l earlier, has_laws (M l earlier)) -> 1 <= t -> 0 <= d ->
  (forall l earlier, private (@replace nat) t d (M l earlier)) -> law A ->
  chained_by_labels M labels A N -> private (@replace nat) t d N.
Proof.
pose labels := [:: tt; tt]; pose M (_ : unit) (_ : seq unit) := tells_zero.
pose blocks (D : seq nat) (l : unit) := labelled l (nseq (size D) tt) D.
pose N D := chain M labels [::] (blocks D).
move=> /(_ M 2%:R 0 labels (certain Q tt) N (fun _ _ => tells_zero_laws) isT isT) twin.
have drawn_N : chained_by_labels M labels (certain Q tt) N.
  move=> D; apply: (@one_label _ (fun ls => chain M labels [::] (fun l => labelled l ls D))) => ls.
  by apply: law_ge0; apply: chain_law => l earlier; exact: tells_zero_laws.
have near : replace [:: 0%N] [:: 1%N] by exists [::], 0%N, 1%N, [::].
have := twin (fun _ _ => @tells_zero_private _) (certain_law Q tt) drawn_N _ _ near [:: [:: tt; tt]] isT.
by rewrite /mass !big_seq1 => /notF.
Qed.

(** parallel by labels: of each record its own, not labels that are drawn for all together. *)
Theorem parallel_by_labels_twin : ~ forall (t d : Q) (M : bool -> mechanism nat Q unit_eqType)
    (C : nat -> seq bool -> Q) (N : mechanism nat Q (seq_eqType unit_eqType)),
  1 <= t -> 0 <= d -> (forall n, law (C n) /\ total (C n) 1) -> (forall l, has_laws (M l)) ->
  (forall l, private (@add_remove nat) t d (M l)) ->
  (forall D, image (C (size D)) (with_labels [:: false; true] M D) (N D)) ->
  private (@add_remove nat) t d N.
Proof.
move=> twin; apply: parallel_by_index_twin => t d M t1 d0 lM pM.
pose in_turn n := [seq odd i | i <- iota 0 n].
pose C n (ls : seq bool) : Q := (ls == in_turn n)%:R.
have one (ls : seq bool) : total (fun z => (z == ls)%:R : Q) 1.
  split=> [s us|u /(_ [:: ls] isT)]; last by rewrite /mass big_seq1 eqxx.
  rewrite /mass; case in_s: (ls \in s).
    by rewrite (bigD1_seq ls) //= eqxx big1 ?addr0 // => z /negbTE->.
  by rewrite big1_seq ?ler01 // => z /= zs; case: eqP => // e; rewrite -e zs in in_s.
apply: (twin t d M C _ t1 d0 _ lM pM) => [n|D u].
  have tot := one (in_turn n); split=> //; split=> [ls|]; first exact: ler0n.
  by case: tot.
have same : with_labels [:: false; true] M D (in_turn (size D)) = by_index [:: false; true] M odd D.
  congr product; apply: eq_map => l; congr (M l _).
  rewrite /labelled /block_at /in_turn; move: (iota 0 (size D)) => places.
  by elim: D places => [|x D IH] [|i places] //=; case: (odd i == l) => /=; rewrite IH.
rewrite -same; set K := with_labels _ M D; rewrite -[K _ u]mul1r.
have K0 : 0 <= K (in_turn (size D)) u by apply: law_ge0; exact: with_labels_law.
have := total_times K0 (one (in_turn (size D))); rewrite mul1r.
move=> [le least]; split=> [s us|v le_v]; first apply: le_trans (le s us).
  by apply: ler_sum => z _; rewrite /C; case: eqP => [->|]; rewrite ?mul0r.
apply: least => s us; apply: le_trans (le_v s us).
by apply: ler_sum => z _; rewrite /C; case: eqP => [->|]; rewrite ?mul0r.
Qed.
(** Blocks that are asked in turn: a replaced record changes two of them, whatever earlier ones released. *)
Theorem chained_by_value_twin : ~ forall (t d : Q) (M : nat -> seq unit -> mechanism nat Q unit_eqType),
  1 <= t -> 0 <= d -> (forall l earlier, has_laws (M l earlier)) ->
  (forall l earlier, private (@add_remove nat) t d (M l earlier)) ->
  private (@replace nat) t d (fun D => chain M [:: 0%N; 1%N] [::] (fun l => [seq x <- D | x == l])).
Proof.
move=> twin; apply: parallel_by_value_twin => t d M t1 d0 lM pM.
exact: (twin t d (fun l _ => M l) t1 d0 (fun l _ => lM l) (fun l _ => pM l)).
Qed.

Theorem chained_by_index_twin : ~ forall (t d : Q) (M : bool -> seq unit -> mechanism nat Q unit_eqType),
  1 <= t -> 0 <= d -> (forall l earlier, has_laws (M l earlier)) ->
  (forall l earlier, private (@add_remove nat) t d (M l earlier)) ->
  private (@add_remove nat) t d (fun D => chain M [:: false; true] [::] (fun l => block_at odd l D)).
Proof.
move=> twin; apply: parallel_by_index_twin => t d M t1 d0 lM pM.
exact: (twin t d (fun l _ => M l) t1 d0 (fun l _ => lM l) (fun l _ => pM l)).
Qed.

(** Nothing of a key that nobody has; a fair coin of every other one. *)
Definition half_said (n : nat) (u : bool) : Q := if n is 0%N then (u == false)%:R else 2%:R^-1.

Lemma bools (s : seq bool) : uniq s -> s \in [:: [::]; [:: true]; [:: false]; [:: true; false]; [:: false; true]].
Proof. by case: s => [|[] [|[] [|[] s]]] //=; rewrite !inE /= ?andbF. Qed.

Lemma half_said_laws n : law (half_said n) /\ total (half_said n) 1.
Proof.
have all1 s : uniq s -> mass (half_said n) s <= 1.
  move/bools; rewrite !inE => /or4P[|||/orP[]] /eqP->; rewrite /mass ?big_cons ?big_nil; by case: n.
split; first by split=> // u; case: n {all1} => [|n]; rewrite /half_said ?ler0n ?invr_ge0 ?ler0n.
split=> // u /(_ [:: true; false] isT); apply: le_trans.
by rewrite /mass !big_cons big_nil; case: n {all1}.
Qed.

Theorem stability_histogram_twin : ~ forall (t d : Q) (moved : nat) (cell : nat -> bool -> Q)
    (count : seq nat -> unit -> nat),
  1 <= t -> 0 <= d <= 1 -> thresholded false t cell ->
  (forall D E, add_remove D E -> (distance_of [:: tt] count D E <= moved)%N) ->
  private (@add_remove nat) (t ^+ moved) d (released [:: tt] cell count).
Proof.
move=> /(_ 1 0 1%N half_said (fun D _ => size D) (lexx _) isT) twin.
have th : thresholded false (1 : Q) half_said.
  split=> //; split; first exact: half_said_laws.
  by move=> n m s _; rewrite expr1n mul1r addr0.
have moves (D E : seq nat) : add_remove D E -> (distance_of [:: tt] (fun D (_ : unit) => size D) D E <= 1)%N.
  by move=> near; rewrite /distance_of big_seq1; move: (size_step near) => /=; move: (size D) (size E) => i j; lia.
have near : add_remove [:: 0%N] [::] by left; exists [::], 0%N, [::].
have := twin th moves _ _ near [:: [:: true]] isT.
by rewrite /mass !big_seq1 /released => /notF.
Qed.

(** Chances of a quarter, a half and three quarters, which at most double from one to the next. *)
Lemma doubling : exists (said : nat -> Q) (quiet : Q),
  (forall n, 0 <= said n <= 1) /\ 0 <= quiet <= 1 /\ quiet <= 1 - said 1%N /\ 1 - quiet < said 3%N /\
  forall n m, (`|n%:Z - m%:Z| <= 1)%N -> said n <= 2%:R * said m /\ 1 - said n <= 2%:R * (1 - said m).
Proof.
pose k n : nat := match n with 0%N | 1%N => 1%N | 2%N => 2%N | _ => 3%N end.
have k4 n : (k n <= 4)%N by case: n => [|[|[|n]]].
have near_k n m : (`|n%:Z - m%:Z| <= 1)%N -> (k n <= 2 * k m)%N /\ (4 - k n <= 2 * (4 - k m))%N.
  by case: n m => [|[|[|n]]] [|[|[|m]]].
have [k1 k3] : k 1%N = 1%N /\ k 3%N = 3%N by [].
move: k k4 near_k k1 k3 => k k4 near_k k1 k3.
have [u [u0 [u4 un]]] : exists u : Q, 0 < u /\ 4%:R * u = 1 /\ forall a b, (a <= b)%N -> a%:R * u <= b%:R * u.
  exists 4%:R^-1; rewrite invr_gt0 ltr0n divff ?pnatr_eq0 //; split=> //; split=> // a b ab.
  by apply: ler_wpmul2r; rewrite ?invr_ge0 ?ler0n // ler_nat.
have rest a : (a <= 4)%N -> 1 - a%:R * u = (4 - a)%:R * u by move=> a4; rewrite natrB // mulrBl u4.
exists (fun n => (k n)%:R * u), (3%:R * u); split.
  move=> n; apply/andP; split; first by rewrite mulr_ge0 ?ler0n // ltW.
  by rewrite -[X in _ <= X]u4; exact: un.
have q1 : 3%:R * u <= 1 by rewrite -[X in _ <= X]u4; exact: un.
split; first by rewrite q1 andbT mulr_ge0 ?ler0n // ltW.
split; first by rewrite /= k1 rest // un.
split; first by rewrite /= k3 rest // ltr_pmul2r // ltr_nat.
by move=> n m /near_k[up down] /=; rewrite !rest // !mulrA -!natrM; split; apply: un.
Qed.

(** Two records of one key are more than two keys of one record each. *)
Definition sure_of_two (n : nat) (u : bool) : Q := if n is m.+2 then (u == true)%:R else half_said n u.

Lemma sure_of_two_law n : law (sure_of_two n).
Proof.
case: n => [|[|n]]; first by case: (half_said_laws 0).
  by case: (half_said_laws 1).
split=> [u|s /bools]; first by rewrite /sure_of_two ler0n.
by rewrite !inE => /or4P[|||/orP[]] /eqP->; rewrite /mass ?big_cons ?big_nil.
Qed.

Theorem alone_once_twin : ~ forall (cell : nat -> bool -> Q) (count : seq nat -> unit -> nat) (D E : seq nat) k,
  (forall n, law (cell n)) -> cell 0%N false = 1 ->
  (\sum_(x <- [:: tt] | count E x == 0%N) count D x <= k)%N ->
  cell 1%N false ^+ k <= alone false [:: tt] cell count D E.
Proof.
move=> /(_ sure_of_two (fun D _ => size D) [:: 0%N; 0%N] [::] 2%N sure_of_two_law erefl) twin.
have few : (\sum_(x <- [:: tt] | size (Nil nat) == 0%N) size [:: 0%N; 0%N] <= 2)%N.
  by rewrite big_mkcond big_seq1.
by have := twin few; rewrite /alone big_mkcond big_seq1 => /notF.
Qed.

(** propose_test_release: a value that changes must be one that the next record can change. *)
Theorem propose_test_release_twin : ~ forall (t quiet : Q) (cell : bool -> nat -> option bool -> Q)
    (value : unit -> seq nat -> bool) (far : unit -> seq nat -> nat),
  1 <= t -> 0 <= quiet <= 1 -> (forall v n, law (cell v n) /\ total (cell v n) 1) ->
  (forall v n m, (`|n%:Z - m%:Z| <= 1)%N -> close t 0 (cell v n) (cell v m)) ->
  (forall v, quiet <= cell v 1%N None) ->
  (forall D E, add_remove D E -> forall i, (`|(far i D)%:Z - (far i E)%:Z| <= 1)%N) ->
  private (@add_remove nat) t (1 - quiet) (fun D => product [seq cell (value i D) (far i D) | i <- [:: tt]]).
Proof.
have [said [quiet [said01 [quiet01 [quiet1 [loud said2]]]]]] := doubling.
pose cell (v : bool) n (u : option bool) : Q := if u is Some w then (if w == v then said n else 0) else 1 - said n.
have t1 : (1 : Q) <= 2%:R by rewrite ler1n.
move=> /(_ 2%:R quiet cell (fun _ D => D == [::]) (fun _ _ => 3%N) t1 quiet01) twin.
have cell0 v n u : 0 <= cell v n u.
  have /andP[s0 s1] := said01 n; rewrite /cell; case: u => [w|]; last by rewrite subr_ge0.
  by case: (w == v).
have lc v n : law (cell v n) /\ total (cell v n) 1.
  have whole : mass (cell v n) [:: Some v; None] = 1.
    by rewrite /mass !big_cons big_nil addr0 /cell eqxx addrC subrK.
  have le1 s : uniq s -> mass (cell v n) s <= 1.
    move=> us; rewrite -whole; apply: (@le_trans _ _ (mass (cell v n) (undup (s ++ [:: Some v; None])))).
      by apply: mass_sub => [|//|x xs]; [exact: cell0 | rewrite mem_cat xs].
    rewrite le_eqVlt; apply/orP; left; apply/eqP.
    rewrite /mass [RHS](_ : _ = \sum_(u <- undup (s ++ [:: Some v; None]) | u \in [:: Some v; None]) cell v n u).
      rewrite [RHS]big_mkcond /=; apply: eq_bigr => u _; case: ifP => //.
      by case: u => [w|]; rewrite !inE //= orbF => ne; rewrite /cell; case: (w =P v) ne => // ->; rewrite eqxx.
    rewrite -[RHS]big_filter; apply: perm_big; apply: uniq_perm => [||u]; first by [].
      by rewrite filter_uniq // undup_uniq.
    by rewrite mem_filter mem_undup mem_cat andbC; case: (u \in [:: Some v; None]); rewrite ?orbT ?andbF.
  split; first by split; [exact: cell0 | exact: le1].
  by split=> [|u /(_ [:: Some v; None] isT)]; [exact: le1 | rewrite whole].
have near_cells v n m : (`|n%:Z - m%:Z| <= 1)%N -> close 2%:R 0 (cell v n) (cell v m).
  move=> nm; apply: close_pointwise => u; have [up down] := said2 _ _ nm.
  by rewrite /cell; case: u => [w|] //; case: (w == v) => //; rewrite mulr0.
have near : add_remove [:: 0%N] [::] by left; exists [::], 0%N, [::].
have := twin lc near_cells (fun=> quiet1) (fun _ _ _ _ => isT) _ _ near [:: [:: Some false]] isT.
by rewrite /mass !big_seq1 /product /= /cell /= !mulr1 mulr0 add0r leNgt loud.
Qed.

(** In the model of the premises, at mu = 0 the two sides have one law. *)
Lemma model_same (T : eqType) (N : T -> Q) : law N -> gdp (@model Q) 0 N N.
Proof. exact: (gdp_same (@model_images Q) (@model_some Q)). Qed.

Lemma model_zero (T : eqType) (P S : T -> Q) : approximate_gdp (@model Q) 0 0 P S -> forall x, P x <= S x.
Proof.
move=> [P' [[_ cutP] gP]] x; have all0 : all_tested (@model Q) 0 1 1 0.
  by move=> A B [_ [-> ->]] s us; rewrite eqxx addr0.
have := gP 1 1 0 ler01 ler01 all0 [:: x] isT; have := cutP [:: x] isT.
by rewrite /mass !big_seq1 !addr0 !mul1r => P_P' /(le_trans P_P').
Qed.

Theorem gaussian_stability_histogram_twin : ~ forall (m d : Q) (moved : nat) (cell : nat -> bool -> Q)
    (count : seq nat -> unit -> nat),
  0 <= m -> 0 <= d <= 1 -> gaussian_thresholded (@model Q) false m cell ->
  (forall D E, add_remove D E -> (squares [:: tt] count D E <= moved)%N) ->
  forall D E, add_remove D E -> approximate_gdp (@model Q) (m * moved%:R) d
    (released [:: tt] cell count D) (released [:: tt] cell count E).
Proof.
have d01 : 0 <= (0 : Q) <= 1 by rewrite lexx ler01.
move=> /(_ 0 0 1%N half_said (fun D _ => size D) (lexx _) d01) twin.
have th : gaussian_thresholded (@model Q) false 0 half_said.
  split=> //; split; first exact: half_said_laws.
  by move=> i j; rewrite mul0r; apply: model_same; case: (half_said_laws 1).
have moves (D E : seq nat) : add_remove D E -> (squares [:: tt] (fun D (_ : unit) => size D) D E <= 1)%N.
  move=> near; rewrite /squares big_seq1; move: (size_step near) => /=; move: (size D) (size E) => i j.
  by case=> ->; rewrite (_ : `|_ - _|%N = 1%N) //; lia.
have near : add_remove [:: 0%N] [::] by left; exists [::], 0%N, [::].
have := twin th moves _ _ near; rewrite mul0r => /model_zero /(_ [:: true]).
by rewrite /released => /notF.
Qed.

(** What is kept where somebody has too few friends is paid for. *)
Theorem noisy_degree_lift_twin : ~ forall (m n o e f most : Q) (M : mechanism nat Q unit_eqType)
    (friends : seq nat -> seq nat -> Prop) keep,
  0 <= m -> 0 <= n -> 0 <= o -> 0 <= e -> 0 <= f -> m + n <= most -> o <= most -> has_laws M ->
  (forall A B, friends A B -> approximate_gdp (@model Q) n f (M A) (M B)) ->
  (forall D E, add_remove D E -> kept_alike (@model Q) (fun A B => friends A B \/ A = B) m e keep D E \/
                                 kept_alike (@model Q) eq o e keep D E) ->
  forall D E, add_remove D E -> approximate_gdp (@model Q) most f (on_kept keep M D) (on_kept keep M E).
Proof.
pose any (D : seq nat) (u : unit) : Q := if D is [::] then 0 else 1.
pose keep (D : seq nat) := [:: (1 : Q, D)].
move=> /(_ 0 0 0 1 0 0 any (fun _ _ => False) keep) twin.
have lany : has_laws any.
  move=> D; split=> [u|s /units[->|->]]; rewrite /mass ?big_nil ?big_seq1 ?ler01 // /any;
    by case: D => *; rewrite ?lexx ?ler01.
have one : law (chance [:: (1 : Q)]).
  split=> [[|[|i]]|s us]; rewrite /chance /= ?ler01 ?lexx //; rewrite /mass.
  rewrite (bigID (pred1 0%N)) /= [X in _ + X]big1 ?addr0; last by case=> [|[|i]].
  rewrite -big_filter; have : uniq (filter (pred1 0%N) s) by rewrite filter_uniq.
  have : all (pred1 0%N) (filter (pred1 0%N) s) by exact: filter_all.
  case: (filter _ s) => [|a [|b r]]; rewrite ?big_nil ?big_seq1 ?ler01 //=.
    by rewrite andbT => /eqP->.
  by case/and3P=> /eqP-> /eqP-> _; rewrite inE eqxx.
have alike D E : add_remove D E -> kept_alike (@model Q) eq 0 1 keep D E.
  move=> _; exists [:: ((1, 1), (D, E), false)]; do 2!(split; first by move=> F).
  split; first exact: one.
  split; first exact: one.
  split; first by rewrite big_mkcond big_seq1.
  split; first exact: model_same one.
  by move=> o0; rewrite inE => /eqP->.
have near : add_remove [:: 0%N] [::] by left; exists [::], 0%N, [::].
have z : 0 + 0 <= (0 : Q) by rewrite addr0.
have := twin (lexx _) (lexx _) (lexx _) ler01 (lexx _) z (lexx _) lany _ _ _ _ near.
move=> /(_ (fun _ _ (no : False) => match no with end) (fun D E n => or_intror (alike D E n))).
by move=> /model_zero /(_ tt); rewrite /on_kept /keep !big_seq1 /any mulr1 mulr0.
Qed.
