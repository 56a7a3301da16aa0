(** What is false: each theorem without one of its conditions, by a small case over the rationals. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum ssrint rat order.
Require Import Definitions Mechanisms Sums Transfer Products Events Rules Hypotheses Filters Domination Noise.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Let Q : realFieldType := [realFieldType of rat].

Section OneOutput.
Variable R : realFieldType.

Lemma units (s : seq unit) : uniq s -> s = [::] \/ s = [:: tt].
Proof. by case: s => [|[] [|[] s]] //; [left | right]. Qed.

Lemma close_units (t d : R) (P P' : unit -> R) :
  0 <= d -> P tt <= t * P' tt + d -> close t d P P'.
Proof.
by move=> d0 le_d s /units[]->; rewrite /mass ?big_nil ?big_seq1 // mulr0 add0r.
Qed.

Lemma not_close_units (t d : R) (P P' : unit -> R) : t * P' tt + d < P tt -> ~ close t d P P'.
Proof. by move=> lt /(_ [:: tt] isT); rewrite /mass !big_seq1 leNgt lt. Qed.

(** Mechanisms with one output whose mass depends on the number of records. *)
Definition of_size (f : nat -> R) (D : seq nat) (u : unit) : R := f (size D).

Lemma size_step (D E : seq nat) : add_remove D E -> size D = (size E).+1 \/ size E = (size D).+1.
Proof. by case=> -[b [x [a [-> ->]]]]; rewrite !size_cat /= addnS; [left | right]. Qed.

Lemma private_of_size (t d : R) (f : nat -> R) : 0 <= d ->
  (forall n, f n.+1 <= t * f n + d /\ f n <= t * f n.+1 + d) ->
  private (@add_remove nat) t d (of_size f).
Proof.
move=> d0 step D E /size_step[e|e]; apply: close_units => //; rewrite /of_size e.
  by have [] := step (size E).
by have [] := step (size D).
Qed.

Lemma not_private_of_size (t d : R) (g : nat -> R) n :
  t * g n + d < g n.+1 -> ~ private (@add_remove nat) t d (of_size g).
Proof.
move=> lt /(_ (nseq n.+1 0%N) (nseq n 0%N)) far.
have step : add_remove (nseq n.+1 0%N) (nseq n 0%N) by left; exists [::], 0%N, (nseq n 0%N).
by apply: (not_close_units _ (far step)); rewrite /of_size !size_nseq.
Qed.

Lemma of_size_laws (f : nat -> R) : (forall n, 0 <= f n <= 1) -> has_laws (of_size f).
Proof.
move=> f01 D; split=> [u|s /units[->|->]]; rewrite /mass ?big_nil ?big_seq1 ?ler01 // /of_size;
  by case/andP: (f01 (size D)).
Qed.

End OneOutput.

(** post_process: a map that is no law makes differences larger. *)
Definition doubled (_ : unit) (_ : unit) : Q := 2.

Theorem post_process_twin : ~ forall (t d : Q) (M N : mechanism nat Q unit_eqType)
    (K : unit -> unit -> Q), 0 <= t -> has_laws M -> (forall D, image (M D) K (N D)) ->
  private (@add_remove nat) t d M -> private (@add_remove nat) t d N.
Proof.
pose f n : Q := if n is 0%N then 0 else 1.
have tot (m : Q) : total (fun x : unit => m * doubled x tt) (m * 2) \/ m < 0.
  case: (lerP 0 m) => m0; [left | by right]; split=> [s us|u le_u].
    by case: (units us) => ->; rewrite /mass ?big_nil ?big_seq1 // mulr_ge0.
  by have := le_u [:: tt] isT; rewrite /mass big_seq1.
move=> /(_ 1 1 (of_size f) (of_size (fun n => f n * 2)) doubled ler01).
have im D : image (of_size f D) doubled (of_size (fun n => f n * 2) D).
  by case; rewrite /of_size /f; case: (size D) => [|n]; [case: (tot 0) | case: (tot 1)].
have lM : has_laws (of_size f) by apply: of_size_laws => -[|n].
move=> /(_ lM im) twin; have : private (@add_remove nat) 1 1 (of_size f).
  by apply: private_of_size => // -[|n] /=; split.
move=> /twin; apply: (@not_private_of_size _ 1 1 _ 0) => //.
Qed.

(** compose: the second release needs its claim after every first one, not after some. *)
Theorem compose_twin : ~ forall (t d t' d' : Q) (M : mechanism nat Q bool_eqType)
    (K : bool -> mechanism nat Q unit_eqType),
  0 <= t -> 0 <= t' -> 0 <= d' -> has_laws M -> (forall x, has_laws (K x)) ->
  private (@add_remove nat) t d M -> (exists x, private (@add_remove nat) t' d' (K x)) ->
  private (@add_remove nat) (t * t') (d + d') (fun D => joint (M D) (fun x => K x D)).
Proof.
pose M (D : seq nat) (b : bool) : Q := b%:R.
pose K (b : bool) := of_size (fun n => (if b && (n != 0%N) then 1 else 0) : Q).
move=> /(_ 1 0 1 0 M K ler01 ler01 (lexx _)) twin.
have lM : has_laws M.
  move=> D; split=> [[]|s us] //; rewrite /mass /M.
  case in_s: (true \in s); first by rewrite (bigD1_seq true) //= big1 // => -[].
  by rewrite big1_seq // => -[] //=; rewrite in_s.
have lK x : has_laws (K x).
  by apply: of_size_laws => n; case: x; case: n.
have pM : private (@add_remove nat) 1 0 M by move=> D E _ s _; rewrite mul1r addr0.
have pK : exists x, private (@add_remove nat) 1 0 (K x).
  by exists false; apply: private_of_size.
have near : add_remove [:: 0%N] [::] by left; exists [::], 0%N, [::].
by have := twin lM lK pM pK _ _ near [:: (true, tt)] isT; rewrite /mass !big_seq1.
Qed.

(** group_privacy: deltas of later steps grow, they do not only add up. *)
Theorem group_privacy_twin : ~ forall (t d : Q) (M : mechanism nat Q unit_eqType) k,
  0 <= t -> has_laws M -> private (@add_remove nat) t d M ->
  private (steps (@add_remove nat) k) (t ^+ k) (k%:R * d) M.
Proof.
pose f n : Q := match n with 0%N => 3%:R / 4%:R | 1%N => 1 / 4%:R | _ => 0 end.
move=> /(_ 2%:R (1 / 4%:R) (of_size f) 2%N isT) twin.
have lM : has_laws (of_size f) by apply: of_size_laws => -[|[|n]].
have pM : private (@add_remove nat) 2%:R (1 / 4%:R) (of_size f).
  by apply: private_of_size => // -[|[|n]].
have far : steps (@add_remove nat) 2 [::] [:: 0%N; 0%N].
  exists [:: 0%N]; split; first by right; exists [::], 0%N, [::].
  by exists [:: 0%N; 0%N]; split=> //; right; exists [::], 0%N, [:: 0%N].
by have := twin lM pM _ _ far [:: tt] isT; rewrite /mass !big_seq1 => /notF.
Qed.

(** change_adjacency: a replacement is paid for twice. *)
Theorem change_adjacency_twin : ~ forall (t d : Q) (M : mechanism nat Q unit_eqType),
  0 <= t -> has_laws M -> private (@add_remove nat) t d M -> private (@replace nat) t d M.
Proof.
pose g (D : seq nat) : Q := if D is [:: x] then (if x == 0%N then 1 else 1 / 4%:R) else 1 / 2%:R.
move=> /(_ 2%:R 0 (fun D _ => g D) isT) twin.
have lM : has_laws (fun D (_ : unit) => g D).
  have g01 D : 0 <= g D <= 1.
    by case: D => [|x [|y D]]; [|rewrite /g; case: (x == _)|]; exact: isT.
  move=> D; have /andP[g0 g1] := g01 D; split=> // s /units[->|->];
    by rewrite /mass ?big_nil ?big_seq1.
have pM : private (@add_remove nat) 2%:R 0 (fun D (_ : unit) => g D).
  move=> D E near; apply: close_units => //; have := size_step near.
  case: D {near} => [|x [|y D]]; case: E => [|x' [|y' E]] /=; try (by case);
    by move=> _; rewrite addr0; try case: (_ == 0%N).
have far : replace [:: 0%N] [:: 1%N] by exists [::], 0%N, 1%N, [::].
by have := twin lM pM _ _ far [:: tt] isT; rewrite /mass !big_seq1 => /notF.
Qed.

(** parallel by value: a replaced record changes two blocks. *)
Theorem parallel_by_value_twin : ~ forall (t d : Q) (M : nat -> mechanism nat Q unit_eqType),
  1 <= t -> 0 <= d -> (forall l, has_laws (M l)) -> (forall l, private (@add_remove nat) t d (M l)) ->
  private (@replace nat) t d (by_value [:: 0%N; 1%N] M id).
Proof.
pose g l n : Q := if (n == 0%N) == (l == 0%N) then 1 else 1 / 2%:R.
move=> /(_ 2%:R 0 (fun l => of_size (g l)) isT (lexx _)) twin.
have lM l : has_laws (of_size (g l)).
  by apply: of_size_laws => n; rewrite /g; case: (_ == _).
have pM l : private (@add_remove nat) 2%:R 0 (of_size (g l)).
  by apply: private_of_size => // n; rewrite /g; case: (_ == _); case: (_ == _).
have far : replace [:: 1%N] [:: 0%N] by exists [::], 1%N, 0%N, [::].
by have := twin lM pM _ _ far [:: [:: tt; tt]] isT; rewrite /mass !big_seq1 => /notF.
Qed.

(** parallel by index: a removal moves every later record to another block. *)
Theorem parallel_by_index_twin : ~ forall (t d : Q) (M : bool -> mechanism nat Q unit_eqType),
  1 <= t -> 0 <= d -> (forall l, has_laws (M l)) -> (forall l, private (@add_remove nat) t d (M l)) ->
  private (@add_remove nat) t d (by_index [:: false; true] M odd).
Proof.
pose g (l : bool) (D : seq nat) (u : unit) : Q := 2%:R^-1 ^+ count (pred1 (nat_of_bool l)) D.
move=> /(_ 2%:R 0 g isT (lexx _)) twin.
have half n : 0 <= (2%:R^-1 : Q) ^+ n <= 1 by rewrite exprn_ge0 ?exprn_ile1.
have lM l : has_laws (g l).
  move=> D; split=> [u|s /units[->|->]]; rewrite /mass ?big_nil ?big_seq1 //.
    by case/andP: (half (count (pred1 (nat_of_bool l)) D)).
  by case/andP: (half (count (pred1 (nat_of_bool l)) D)).
have pM l : private (@add_remove nat) 2%:R 0 (g l).
  have one n (b : bool) : (2%:R^-1 : Q) ^+ (n + b) <= 2%:R * 2%:R^-1 ^+ n /\
                          (2%:R^-1 : Q) ^+ n <= 2%:R * 2%:R^-1 ^+ (n + b).
    have /andP[n0 n1] := half n; case: b; rewrite ?addn0 ?addn1; last first.
      by rewrite -{1 3}[_ ^+ n]mul1r; split; apply: ler_wpmul2r.
    by rewrite exprS !mulrA; split; [apply: ler_wpmul2r | rewrite mulfV // mul1r].
  have half_way D E : removed D E -> g l D tt <= 2%:R * g l E tt /\ g l E tt <= 2%:R * g l D tt.
    case=> b [x [a [-> ->]]]; rewrite /g !count_cat /= addnCA addnC.
    exact: one.
  by move=> D E [/half_way|/half_way][up down]; apply: close_units => //; rewrite addr0.
have near : add_remove [:: 1%N; 0%N; 1%N; 0%N] [:: 0%N; 1%N; 0%N] by left; exists [::], 1%N, [:: 0%N; 1%N; 0%N].
by have := twin lM pM _ _ near [:: [:: tt; tt]] isT; rewrite /mass !big_seq1 => /notF.
Qed.

(** A gate takes a hypothesis away only where nothing is released without it. *)
Theorem passed_gate_twin : ~ forall (t d : Q) (M : mechanism nat Q unit_eqType)
    (H : seq (hypothesis nat_eqType unit_eqType)) h,
  under (h :: H) (@add_remove nat) t d M -> under H (@add_remove nat) t d M.
Proof.
pose f n : Q := if n is 0%N then 0 else 1.
move=> /(_ 1 0 (of_size f) [::] (fun _ _ _ => false)) twin.
have none : under [:: (fun _ _ _ => false) : hypothesis nat_eqType unit_eqType] (@add_remove nat) 1 0 (of_size f).
  by move=> D E _; apply: close_units.
apply: (@not_private_of_size _ 1 0 f 0) => //.
exact: no_hypotheses (twin none).
Qed.
