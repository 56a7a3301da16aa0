(** Claims under hypotheses: composition takes their union, an event discharges exactly one. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum order rat.
From mathcomp Require Import ring.
Require Import Definitions Mechanisms Sums Transfer Events Rules.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Hypotheses.
Variables (R : realFieldType) (X : eqType).
Implicit Types (t d e : R) (near : seq X -> seq X -> Prop).
Notation hypothesis := (hypothesis X).

Lemma where_good_ge0 (T : eqType) (good : T -> bool) (P : T -> R) :
  (forall x, 0 <= P x) -> forall x, 0 <= where_good good P x.
Proof. by move=> P0 x; rewrite /where_good; case: (good x). Qed.

Lemma where_good_law (T : eqType) (good : T -> bool) (P : T -> R) : law P -> law (where_good good P).
Proof.
case=> P0 P1; split; first exact: where_good_ge0.
by move=> s us; apply: le_trans (P1 s us); exact: where_good_le.
Qed.

Lemma eq_mass (T : eqType) (P Q : T -> R) s : P =1 Q -> mass P s = mass Q s.
Proof. by move=> PQ; apply: eq_bigr => x _. Qed.

Lemma eq_close (T : eqType) t d (P P' Q Q' : T -> R) :
  P =1 P' -> Q =1 Q' -> close t d P' Q' -> close t d P Q.
Proof. by move=> PP QQ PQ s us; rewrite (eq_mass s PP) (eq_mass s QQ); exact: PQ. Qed.

Theorem no_hypotheses near (T : eqType) t d (M : mechanism X R T) :
  under [::] near t d M -> private near t d M.
Proof. by move=> uM D E near_DE; apply: (eq_close _ _ (uM D E near_DE)). Qed.

Theorem assume near (T : eqType) t d (M : mechanism X R T) (H : seq (hypothesis T)) h :
  under H near t d M -> under (h :: H) near t d M.
Proof.
move=> uM D E near_DE s us.
have cut (P : T -> R) : mass (where_good (every (h :: H) D E) P) s =
    mass (where_good (every H D E) P) [seq x <- s | h D E x].
  rewrite /mass big_filter [RHS]big_mkcond; apply: eq_bigr => x _.
  by rewrite /where_good /=; case: (h D E x).
by rewrite !cut; apply: uM => //; exact: filter_uniq.
Qed.

Theorem compose_under near (T U : eqType) t d t' d' (M : mechanism X R T) (K : T -> mechanism X R U)
    (H : seq (hypothesis T)) (G : seq (T -> hypothesis U)) :
  0 <= t -> 0 <= t' -> 0 <= d' -> has_laws M -> (forall x, has_laws (K x)) ->
  under H near t d M -> (forall x, under [seq g x | g <- G] near t' d' (K x)) ->
  under ([seq @of_first X T U h | h <- H] ++ [seq @of_second X T U g | g <- G]) near (t * t') (d + d')
    (fun D => joint (M D) (fun x => K x D)).
Proof.
move=> t0 t0' d0 lM lK uM uK D E near_DE.
have parts (P : T -> R) (A : T -> U -> R) :
    where_good (every ([seq @of_first X T U h | h <- H] ++ [seq @of_second X T U g | g <- G]) D E) (joint P A) =1
    joint (where_good (every H D E) P) (fun x => where_good (every [seq g x | g <- G] D E) (A x)).
  move=> z; rewrite /where_good /joint /every all_cat !all_map.
  rewrite (eq_all (a2 := fun h : hypothesis T => h D E z.1)); last by [].
  rewrite [X in _ && X](eq_all (a2 := fun g : T -> hypothesis U => g z.1 D E z.2)); last by [].
  rewrite /preim /=; case: all; case: all; rewrite ?mulr0 ?mul0r //.
apply: (eq_close (parts _ _) (parts _ _)).
by apply: close_joint => // [||x|x||x]; try (apply: where_good_law; try exact: lM; exact: lK);
  [exact: uM | exact: uK].
Qed.

(** Exactly one hypothesis is taken away: the one whose failure the event is. *)
Theorem add_delta_event near (T : eqType) t d e (M : mechanism X R T) (H : seq (hypothesis T)) h :
  0 <= t -> has_laws M -> under (h :: H) near t d M -> rarely_fails h H near e M ->
  under H near t (d + e) M.
Proof.
move=> t0 lM uM rare D E near_DE.
apply: (close_good (good := h D E)) => //.
- by apply: where_good_ge0; exact: law_ge0.
- move=> s us; apply: le_trans (rare D E near_DE s us); rewrite /mass; apply: ler_sum => x _.
  by rewrite /where_good; case: (h D E x); case: (every H D E x).
apply: (eq_close _ _ (uM D E near_DE)) => x; rewrite /where_good /=.
  by case: (h D E x).
by case: (h D E x).
Qed.

(** A gate: the mechanism stops where the hypothesis fails, so it holds wherever there is an output. *)
Theorem passed_gate near (T : eqType) t d (M : mechanism X R T) (H : seq (hypothesis T)) h :
  (forall D E x, near D E -> ~~ h D E x -> M D x = 0 /\ M E x = 0) ->
  under (h :: H) near t d M -> under H near t d M.
Proof.
move=> stops uM D E near_DE; apply: (eq_close _ _ (uM D E near_DE)) => x; rewrite /where_good /=.
  by case hx: (h D E x) => //=; have [-> _] := stops D E x near_DE (negbT hx); case: (every H D E x).
by case hx: (h D E x) => //=; have [_ ->] := stops D E x near_DE (negbT hx); case: (every H D E x).
Qed.

End Hypotheses.

(** Groups are refused while a claim is open: two steps may each satisfy what they rest on, or make
    it void, while the ends tell each other apart. *)
Section Counterexample.
Let R : realFieldType := [realFieldType of rat].

(** It rests on: neither of the two datasets has exactly one record. *)
Definition not_of_one : hypothesis nat_eqType bool_eqType :=
  fun D E _ => (size D != 1%N) && (size E != 1%N).

(** Whether there are two records or more. *)
Definition tells_two (D : seq nat) (x : bool) : R := (x == (1 < size D)%N)%:R.

Lemma size_removed (D E : seq nat) : removed D E -> size D = (size E).+1.
Proof. by case=> before [x [after [-> ->]]]; rewrite !size_cat /= addnS. Qed.

Theorem no_groups_under_hypotheses :
  under [:: not_of_one] (@add_remove nat) 1 0 tells_two /\
  ~ under [:: not_of_one] (steps (@add_remove nat) 2) (1 ^+ 2) (group_delta 1 0 2) tells_two.
Proof.
split.
  have same D E : add_remove D E -> forall x : bool,
      where_good (every [:: not_of_one] D E) (tells_two D) x =
      where_good (every [:: not_of_one] D E) (tells_two E) x.
    move=> near_DE x; rewrite /where_good /= /not_of_one andbT.
    case: ifP => // /andP[]; case: near_DE => /size_removed; rewrite /tells_two.
      by case: (size D) (size E) => [|[|m]] [|[|k]] //= [->].
    by case: (size D) (size E) => [|[|m]] [|[|k]] //= [->].
  move=> D E near_DE s us; rewrite addr0 mul1r /mass.
  by apply: ler_sum => x _; rewrite (same _ _ near_DE).
have steps2 : steps (@add_remove nat) 2 [:: 0%N; 0%N] [::].
  exists [:: 0%N]; split; first by left; exists [::], 0%N, [:: 0%N].
  by exists [::]; split=> //; left; exists [::], 0%N, [::].
move=> /(_ _ _ steps2 [:: true] isT).
rewrite /mass !big_seq1 /where_good /= /tells_two /group_delta /= mul0r mulr0 add0r.
by rewrite ler10.
Qed.
End Counterexample.
