(** What is false of released numbers, of what is built from them, and of noisy scores. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum ssrint rat order.
From mathcomp Require Import zify.
Require Import Definitions Mechanisms Sums Products Events Hypotheses AboveThreshold Noise Twins MoreTwins.
Require Import CouplingTwins Releases.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Let Q : realFieldType := [realFieldType of rat].

Definition records (D : seq nat) : int := (size D)%:Z.

Lemma records_move (D E : seq nat) : add_remove D E -> `|records D - records E| <= 1%:Z.
Proof. by move=> /size_step; rewrite /records; move: (size D) (size E) => m n; lia. Qed.

Lemma one_more : add_remove [:: 0%N] [::].
Proof. by left; exists [::], 0%N, [::]. Qed.

(** public_value: a number that moves by one at most tells whether it moved. *)
Theorem public_value_twin : ~ forall (near : seq nat -> seq nat -> Prop) (query : seq nat -> int),
  (forall D E, near D E -> `|query D - query E| <= 1%:Z) ->
  private near 1 0 (fun D => certain Q (query D)).
Proof.
move=> /(_ _ records records_move _ _ one_more [:: 1] isT).
by rewrite /mass !big_seq1.
Qed.

(** released_event: under either neighbor the number is off by what it moves. *)
Theorem released_event_twin : ~ forall (near : seq nat -> seq nat -> Prop) (at_most smaller : bool)
    (shift slack : int) (moved : nat) (e : Q) (query : seq nat -> int) (p above : int -> Q)
    (H : seq (hypothesis nat_eqType int_eqType)),
  law p -> (forall z, p (- z) = p z) -> tail p above ->
  (forall D E, near D E -> `|query D - query E| <= moved%:Z) ->
  above (missing at_most smaller shift slack 0) <= e ->
  rarely_fails (compared at_most smaller slack query) H near e
    (fun D y => p (y - (query D - shift))).
Proof.
pose above (w : int) : Q := mass (fun y => if w <= y then certain Q (0 : int) y else 0) [:: 0].
move=> /(_ (@add_remove nat) true true 0 0 1%N 0 records (certain Q (0 : int)) above [::]) twin.
have sym z : certain Q (0 : int) (- z) = certain Q (0 : int) z by rewrite /certain oppr_eq0.
have tl : tail (certain Q (0 : int)) above.
  move=> w; apply: total_finite => // y; first by case: ifP => // _; exact: ler0n.
  by rewrite inE /certain => /negbTE->; case: ifP.
have rare : above (missing true true 0 0 0) <= 0 by rewrite /above /mass big_seq1.
have := twin (certain_law _ _) sym tl records_move rare _ _ one_more [:: 1] isT.
by rewrite /mass big_seq1.
Qed.

(** for_each_release: what is assumed of the released number has to give what a stage rests on. *)
Theorem for_each_release_twin : ~ forall (near : seq nat -> seq nat -> Prop) (t d t' d' : Q)
    (M : mechanism nat Q unit_eqType) (K : unit -> mechanism nat Q unit_eqType)
    (H : seq (hypothesis nat_eqType unit_eqType)) (released : hypothesis nat_eqType unit_eqType)
    (built_from : unit -> seq nat -> seq nat -> bool),
  0 <= t -> 0 <= t' -> 0 <= d' -> has_laws M -> (forall x, has_laws (K x)) -> under H near t d M ->
  (forall x, under [:: fun D E _ => built_from x D E] near t' d' (K x)) ->
  under [seq of_first (U := unit_eqType) h | h <- released :: H] near (t * t') (d + d')
    (fun D => joint (M D) (fun x => K x D)).
Proof.
pose one (D : seq nat) : unit -> Q := certain Q tt.
move=> /(_ (@add_remove nat) 1 0 1 0 one (fun=> of_size tells_any) [::] (fun _ _ _ => true)) twin.
have {}twin := twin (fun _ _ _ => false) ler01 ler01 (lexx _) (fun D => certain_law _ _).
have := twin (fun=> tells_any_laws) _ _ _ _ one_more [:: (tt, tt)] isT.
rewrite /mass !big_seq1 => far; suff : (1 : Q) <= 1 * 1 * 0 + (0 + 0) by [].
by apply: far => [D E _|x D E _]; apply: close_units.
Qed.

(** kept_by_noise: two records pass a threshold more often than one. *)
Theorem kept_by_noise_twin : ~ forall (p above : int -> Q) (threshold score : int) e vs s,
  law p -> tail p above -> all (fun v => v <= score) vs -> above (threshold - score + 1) <= e ->
  uniq s -> mass (where_good (passed threshold) (noisy p vs)) s <= e.
Proof.
have [h [hh h0]] : exists h : Q, h + h = 1 /\ 0 < h by exists (1 / 2%:R).
have h01 : 0 <= h <= 1 by rewrite ltW //= -[X in _ <= X]hh ler_addl ltW.
pose p : int -> Q := mixed h 0 1; have p0 z : 0 <= p z by exact: mixed_ge0.
pose above (w : int) : Q := mass (fun y => if w <= y then p y else 0) [:: 0; 1].
have tl : tail p above.
  move=> w; apply: total_finite => // y; first by case: ifP.
  rewrite !inE negb_or /p /mixed /certain => /andP[/negbTE-> /negbTE->].
  by rewrite !mulr0 addr0; case: ifP.
have rest : 1 - h = h by rewrite -hh addrK.
have [pl pr] : p 0 = h /\ p 1 = h by rewrite /p /mixed /certain /= !mulr0 !mulr1 rest addr0 add0r.
have half : above (0 - 0 + 1) <= h by rewrite /above /mass !big_cons big_nil /= add0r addr0 pr.
pose passing : seq (seq int) := [:: [:: 0; 1]; [:: 1; 0]; [:: 1; 1]].
move=> /(_ p above 0 0 h [:: 0; 0] passing (mixed_law h01 _ _) tl isT) twin.
have := twin half isT.
rewrite /mass !big_cons big_nil /where_good /noisy /= !subr0 pl pr !mulr1 ?addr0.
have -> : h * h + (h * h + h * h) = h + h * h by rewrite addrA -mulrDr hh mulr1.
by rewrite ger_addl leNgt mulr_gt0.
Qed.
