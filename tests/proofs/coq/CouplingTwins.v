(** What is false of laws that are drawn together: maps of records, and events in the coins. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum ssrint rat order.
From mathcomp Require Import ring.
Require Import Definitions Mechanisms Sums Products Events Hypotheses Maps Adaptive Twins.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Let Q : realFieldType := [realFieldType of rat].

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

Lemma coupled_together (D E : seq X) : add_remove D E -> exists C,
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

(** add_total_variation_event: on each side the law may be another than the claim is about. *)
Theorem add_total_variation_event_twin : ~ forall (near : seq nat -> seq nat -> Prop) (t d e : Q)
    (M : mechanism nat Q bool_eqType) (H : seq (hypothesis nat_eqType bool_eqType)),
  0 <= t -> claimed_of_coupled H near t d e M -> under H near t (d + e) M.
Proof.
have [h [hh /andP[h0 h1]]] : exists h : Q, h + h = 1 /\ 0 <= h < 1 by exists (1 / 2%:R).
have h01 : 0 <= h <= 1 by rewrite h0 ltW.
have rest : 1 - h = h by rewrite -hh addrK.
pose tells (D : seq nat) : bool -> Q := certain Q (D == [::]).
pose fair : bool -> Q := mixed h true false.
pose pairs (b : bool) := mixed h (b, true) (b, false).
pose sriap (b : bool) := mixed h (true, b) (false, b).
have K0 (side : bool * bool -> bool) x u : 0 <= (side x == u)%:R :> Q by exact: ler0n.
have same (b u : bool) : certain Q b u = h * (b == u)%:R + (1 - h) * (b == u)%:R.
  by rewrite /certain eq_sym -mulrDl addrC subrK mul1r.
have left_one b : coupling (pairs b) (tells (if b then [::] else [:: 0%N])) fair.
  split; first exact: mixed_law.
  split=> u; last first.
    by rewrite /fair /mixed /certain ![u == _]eq_sym; exact: (image_mixed h01 _ _ (K0 snd)).
  have -> : tells (if b then [::] else [:: 0%N]) u = certain Q b u by case: b.
  by rewrite same; exact: (image_mixed h01 (b, true) (b, false) (K0 fst)).
have right_one b : coupling (sriap b) fair (tells (if b then [::] else [:: 0%N])).
  split; first exact: mixed_law.
  split=> u.
    by rewrite /fair /mixed /certain ![u == _]eq_sym; exact: (image_mixed h01 _ _ (K0 fst)).
  have -> : tells (if b then [::] else [:: 0%N]) u = certain Q b u by case: b.
  by rewrite same; exact: (image_mixed h01 (true, b) (false, b) (K0 snd)).
have rare (C : bool * bool -> Q) (z : bool * bool) :
    (forall x, where_good (fun x => x.1 != x.2) C x = h * certain Q z x) -> rarely_differ h C.
  move=> Cz s us; rewrite (eq_mass s Cz) /mass -mulr_sumr -[X in _ <= X]mulr1.
  by apply: ler_wpmul2l => //; exact: mass_le1 (certain_law _ _) us.
pose near (D E : seq nat) := D = [::] /\ E = [:: 0%N].
move=> /(_ near 1 0 h tells [::] ler01) twin; have {}twin : under [::] near 1 (0 + h) tells.
  apply: twin => _ _ [-> ->]; exists fair, fair; split.
    exists (pairs true); split; first exact: (left_one true).
    apply: (rare _ (true, false)) => -[[] []];
      by rewrite /where_good /pairs /mixed /certain /= ?rest ?mulr0 ?mulr1 ?add0r.
  split; last by move=> s us; rewrite mul1r addr0.
  exists (sriap false); split; first exact: (right_one false).
  apply: (rare _ (true, false)) => -[[] []];
    by rewrite /where_good /sriap /mixed /certain /= ?rest ?mulr0 ?mulr1 ?addr0.
have := no_hypotheses twin (conj erefl erefl) (s := [:: true]) isT.
by rewrite /mass !big_seq1 /tells /certain /= mulr0 !add0r leNgt h1.
Qed.
