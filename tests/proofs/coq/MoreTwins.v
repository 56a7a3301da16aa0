(** What is false, continued: theorems without one of their conditions, by small cases. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum ssrint rat order.
Require Import Definitions Mechanisms Sums Transfer Products Events Rules Hypotheses Domination Noise Adaptive.
Require Import Twins.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Let Q : realFieldType := [realFieldType of rat].

(** Whether there is any record, told for certain. *)
Definition tells_any n : Q := if n is 0%N then 0 else 1.

Lemma tells_any_laws : has_laws (of_size tells_any).
Proof. by apply: of_size_laws => -[|n]; rewrite ?lexx ?ler01. Qed.

(** convert: to a larger t only. *)
Theorem convert_twin : ~ forall (t d t' d' : Q) (M : mechanism nat Q unit_eqType),
  has_laws M -> d <= d' -> private (@add_remove nat) t d M -> private (@add_remove nat) t' d' M.
Proof.
pose f n : Q := if n is 0%N then 1 / 2%:R else 1.
move=> /(_ 2%:R 0 1 0 (of_size f)) twin.
have lM : has_laws (of_size f) by apply: of_size_laws => -[|n].
have pM : private (@add_remove nat) 2%:R 0 (of_size f).
  by apply: private_of_size => // -[|n].
by apply: (@not_private_of_size _ 1 0 f 0) => //; exact: twin.
Qed.

(** add_delta_event: the event's probability is paid for. *)
Theorem add_delta_event_twin : ~ forall (t d e : Q) (M : mechanism nat Q unit_eqType)
    (H : seq (hypothesis nat_eqType unit_eqType)) h,
  0 <= t -> has_laws M -> under (h :: H) (@add_remove nat) t d M ->
  rarely_fails h H (@add_remove nat) e M -> under H (@add_remove nat) t d M.
Proof.
move=> /(_ 1 0 1 (of_size tells_any) [::] (fun _ _ _ => false) ler01 tells_any_laws) twin.
apply: (@not_private_of_size _ 1 0 tells_any 0) => //; apply: no_hypotheses; apply: twin.
  by move=> D E _; apply: close_units.
move=> D E _ s us; have [_ /(_ s us)] := tells_any_laws D.
by apply: le_trans; apply: where_good_le => x; apply: law_ge0; exact: tells_any_laws.
Qed.

(** compose_under: what the second claim rests on is not taken away. *)
Theorem compose_under_twin : ~ forall (t d t' d' : Q) (M : mechanism nat Q unit_eqType)
    (K : unit -> mechanism nat Q unit_eqType) (H : seq (hypothesis nat_eqType unit_eqType))
    (G : seq (unit -> hypothesis nat_eqType unit_eqType)),
  0 <= t -> 0 <= t' -> 0 <= d' -> has_laws M -> (forall x, has_laws (K x)) ->
  under H (@add_remove nat) t d M ->
  (forall x, under [seq g x | g <- G] (@add_remove nat) t' d' (K x)) ->
  under [seq @of_first _ _ unit_eqType h | h <- H] (@add_remove nat) (t * t') (d + d')
    (fun D => joint (M D) (fun x => K x D)).
Proof.
pose one (D : seq nat) : unit -> Q := certain Q tt.
move=> /(_ 1 0 1 0 one (fun=> of_size tells_any) [::] [:: fun _ _ _ _ => false]) twin.
have lM : has_laws one by move=> D; exact: certain_law.
have uM : under [::] (@add_remove nat) 1 0 one by move=> D E _; apply: close_units.
have uK (x : unit) : under [:: (fun _ _ _ => false) : hypothesis nat_eqType unit_eqType]
    (@add_remove nat) 1 0 (of_size tells_any) by move=> D E _; apply: close_units.
have near : add_remove [:: 0%N] [::] by left; exists [::], 0%N, [::].
have := twin ler01 ler01 (lexx _) lM (fun=> tells_any_laws) uM uK _ _ near [:: (tt, tt)] isT.
by rewrite /mass !big_seq1.
Qed.

(** compose_dominated: a test at one t is not enough. *)
Theorem compose_dominated_twin : ~ forall (t : Q) (P S K L A B C D : unit -> Q),
  0 <= t -> law P -> law S -> law C -> law D ->
  (forall d, tested 1 t d A B -> tested 1 t d P S) -> (forall d, tested 1 t d C D -> tested 1 t d K L) ->
  forall d, tested 1 t d (joint A (fun=> C)) (joint B (fun=> D)) ->
  tested 1 t d (joint P (fun=> K)) (joint S (fun=> L)).
Proof.
pose c (x : Q) (u : unit) := x.
have lc x : 0 <= x <= 1 -> law (c x).
  by case/andP=> x0 x1; split=> // s /units[->|->]; rewrite /mass ?big_nil ?big_seq1.
pose h : Q := 1 / 2%:R.
move=> /(_ 2%:R (c 1) (c h) (c 1) (c h) (c 1) (c 1) (c 1) (c 1) isT) twin.
have half d : tested 1 2%:R d (c 1) (c 1) -> tested 1 2%:R d (c 1) (c h).
  move=> /(_ [::] isT); rewrite /mass !big_nil !mulr0 add0r => d0 s /units[->|->];
    rewrite /mass ?big_nil ?big_seq1 ?mulr0 ?add0r //.
  by rewrite /c /h mul1r (_ : 2%:R * (1 / 2%:R) = 1 :> Q) // ler_addl.
have pairs (s : seq (unit * unit)) : uniq s -> s = [::] \/ s = [:: (tt, tt)].
  by case: s => [|[[] []] [|[[] []] s]] //; [left | right].
have same : tested 1 2%:R 0 (joint (c 1) (fun=> c 1)) (joint (c 1) (fun=> c 1)).
  by move=> s /pairs[->|->]; rewrite /mass ?big_nil ?big_seq1.
have := twin (lc 1 isT) (lc h isT) (lc 1 isT) (lc 1 isT) half half 0 same [:: (tt, tt)] isT.
by rewrite /mass !big_seq1 => /notF.
Qed.

(** randomized_response: the true answer is the likelier one. *)
Theorem randomized_response_twin : ~ forall (t : Q) (options : seq nat)
    (near : seq nat -> seq nat -> Prop) (answers : seq nat -> seq nat) (moved : nat), 0 < t ->
  (forall D E, near D E -> size (answers D) = size (answers E) /\
     (hamming (answers D) (answers E) <= moved)%N) ->
  private near (t ^+ moved) 0 (fun D => product [seq response t options a | a <- answers D]).
Proof.
move=> /(_ (1 / 2%:R) [:: 0%N] (fun _ _ => True) (fun=> [:: 0%N]) 1%N isT) twin.
have same : (hamming [:: 0%N] [:: 0%N] <= 1)%N by rewrite /hamming /= big_seq1.
have := twin (fun _ _ _ => conj erefl same) [::] [::] I [:: [:: 0%N]] isT.
have one : response (1 / 2%:R : Q) [:: 0%N] 0%N 0%N = 1.
  by rewrite /response mem_head eqxx /= mulr0n addr0 divff.
by rewrite /mass !big_seq1 /= one mulr1 addr0 expr1 mulr1.
Qed.

(** of_kept_records_replace: whether a record is kept changes the number of records. *)
Theorem of_kept_records_replace_twin : ~ forall (t d : Q) (M : mechanism nat Q unit_eqType)
    (f : nat -> option nat), 1 <= t -> 0 <= d -> has_laws M ->
  private (@replace nat) t d M -> private (@replace nat) t d (fun D => M (pmap f D)).
Proof.
pose f (x : nat) := if x is 0%N then None else Some x.
move=> /(_ 1 0 (of_size tells_any) f (lexx _) (lexx _) tells_any_laws) twin.
have pM : private (@replace nat) 1 0 (of_size tells_any).
  move=> D E [b [x [y [a [-> ->]]]]]; apply: close_units => //.
  by rewrite /of_size !size_cat /= mul1r addr0.
have near : replace [:: 1%N] [:: 0%N] by exists [::], 1%N, 0%N, [::].
by have := twin pM _ _ near [:: tt] isT; rewrite /mass !big_seq1.
Qed.

(** limits_filter: the limits hold on every path, not on one. *)
Fixpoint within_on_a_path (X T : eqType) (near : seq X -> seq X -> Prop) (t d : Q)
    (asked : requests Q X T) : Prop :=
  match asked with
  | Stop => 1 <= t /\ 0 <= d
  | Ask t1 d1 M next =>
      1 <= t1 /\ 0 <= d1 /\ has_laws M /\ private near t1 d1 M /\
      exists x, within_on_a_path near (t / t1) (d - d1) (next x)
  end.

Theorem limits_filter_twin : ~ forall t d (asked : requests Q nat_eqType bool_eqType),
  within_on_a_path (@add_remove nat) t d asked -> private (@add_remove nat) t d (answers asked).
Proof.
pose constant (D : seq nat) : bool -> Q := certain Q true.
pose telling (D : seq nat) : bool -> Q := certain Q (size D != 0%N).
pose stop := Stop Q nat_eqType bool_eqType.
pose after (b : bool) := if b then Ask 1 1 telling (fun=> stop) else stop.
move=> /(_ 1 0 (Ask 1 0 constant after)) twin.
have on_a_path : within_on_a_path (@add_remove nat) 1 0 (Ask 1 0 constant after).
  split=> //; split=> //; split=> [D|]; first exact: certain_law.
  split; last by exists false; rewrite /= subr0 divr1.
  by move=> D E _ s us; rewrite mul1r addr0.
have near : add_remove [:: 0%N] [::] by left; exists [::], 0%N, [::].
by have := twin on_a_path _ _ near [:: [:: true; true]] isT; rewrite /mass !big_seq1.
Qed.
