(** What the lift by noisy scores asks of a filter can be met by one whose lists grow with the records. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum ssrint rat order.
Require Import Definitions Mechanisms Sums Domination Gaussian Premises DegreeLift.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Let Q : realFieldType := [realFieldType of rat].

(** Every record is kept by a fair coin: all sets of records, each as likely. *)
Fixpoint halves (D : seq nat) : seq (Q * seq nat) :=
  if D is x :: rest
  then [seq (c.1 / 2%:R, x :: c.2) | c <- halves rest] ++ [seq (c.1 / 2%:R, c.2) | c <- halves rest]
  else [:: (1, [::])].

(** Half as likely, with [y] on both sides. *)
Definition half_with (y : seq nat) (o : outcome Q nat) : outcome Q nat :=
  ((o.1.1.1 / 2%:R, o.1.1.2 / 2%:R), (y ++ o.1.2.1, y ++ o.1.2.2), o.2).

Fixpoint side_by_side (x : nat) (before after : seq nat) : seq (outcome Q nat) :=
  if before is y :: rest
  then [seq half_with [:: y] o | o <- side_by_side x rest after] ++
       [seq half_with [::] o | o <- side_by_side x rest after]
  else [seq ((c.1 / 2%:R, c.1 / 2%:R), (x :: c.2, c.2), true) | c <- halves after] ++
       [seq ((c.1 / 2%:R, c.1 / 2%:R), (c.2, c.2), true) | c <- halves after].

Lemma halves_left x b a : halves (b ++ x :: a) = [seq on_left o | o <- side_by_side x b a].
Proof.
elim: b => [|y b IH] /=; rewrite map_cat -!map_comp //.
by rewrite IH -!map_comp.
Qed.

Lemma halves_right x b a : same_law (halves (b ++ a)) [seq on_right o | o <- side_by_side x b a].
Proof.
elim: b => [|y b IH] F /=; rewrite map_cat -!map_comp !big_cat !big_map /=.
  rewrite -big_split; apply: eq_bigr => c _ /=.
  by rewrite -mulrDl -splitr.
congr (_ + _).
  have := IH (fun A => 2%:R^-1 * F (y :: A)); rewrite big_map /=.
  by under eq_bigr do rewrite mulrA; move=> ->; apply: eq_bigr => o _; rewrite mulrA.
have := IH (fun A => 2%:R^-1 * F A); rewrite big_map /=.
by under eq_bigr do rewrite mulrA; move=> ->; apply: eq_bigr => o _; rewrite mulrA.
Qed.

Lemma same_chances x b a :
  [seq o.1.1.1 | o <- side_by_side x b a] = [seq o.1.1.2 | o <- side_by_side x b a].
Proof.
apply/eq_in_map; elim: b => [|y b IH] o /=; rewrite mem_cat => /orP[] /mapP[c in_c ->] //=;
  by rewrite IH.
Qed.

Lemma chance_law (ps : seq Q) : (forall p, p \in ps -> 0 <= p) -> \sum_(p <- ps) p <= 1 -> law (chance ps).
Proof.
move=> ps0 ps1; have nth0 i : 0 <= chance ps i.
  by rewrite /chance; case: (ltnP i (size ps)) => li; [apply: ps0; exact: mem_nth | rewrite nth_default].
split=> [i|s us]; first exact: nth0.
apply: le_trans ps1; rewrite (big_nth 0) /index_iota subn0 -/(mass (chance ps) _).
rewrite /mass (bigID (fun i => i < size ps)%N) /= [X in _ + X]big1 ?addr0; last first.
  by move=> i; rewrite -leqNgt => li; rewrite /chance nth_default.
rewrite -big_filter -[iota _ _]undup_id ?iota_uniq //; apply: mass_sub => [i||i]; first exact: nth0.
  by rewrite filter_uniq.
by rewrite mem_filter mem_iota add0n => /andP[].
Qed.

Lemma halves_sum D : (forall p, p \in [seq c.1 | c <- halves D] -> 0 <= p) /\ \sum_(p <- [seq c.1 | c <- halves D]) p = 1.
Proof.
elim: D => [|x D [IH0 IH1]] /=.
  by split=> [p|]; rewrite ?inE ?big_seq1 // => /eqP->.
rewrite map_cat -!map_comp; split=> [p|].
  by rewrite mem_cat => /orP[] /mapP[c in_c ->] /=; apply: divr_ge0 => //; apply: IH0; exact: map_f.
rewrite big_cat !big_map /= -!mulr_suml; move: IH1; rewrite big_map => ->.
by rewrite -splitr.
Qed.

Lemma halves_kept_alike (D E : seq nat) : add_remove D E ->
  kept_alike (@model Q) (fun A B => add_remove A B \/ A = B) 0 0 halves D E.
Proof.
have like x b a o : o \in side_by_side x b a -> removed o.1.2.1 o.1.2.2 \/ o.1.2.1 = o.1.2.2.
  elim: b o => [|y b IH] o /=; rewrite mem_cat => /orP[] /mapP[c in_c ->] /=.
  - by left; exists [::], x, c.2.
  - by right.
  - by case: (IH c in_c) => [[b' [z [a' [-> ->]]]]|->]; [left; exists (y :: b'), z, a' | right].
  - exact: IH.
have none (os : seq (outcome Q nat)) : all (@good Q nat_eqType) os -> \sum_(o <- os | ~~ good o) o.1.1.1 <= 0.
  by move=> /allP ok; rewrite big_seq_cond big1 // => o /andP[/ok->].
have goods x b a : all (@good Q nat_eqType) (side_by_side x b a).
  by elim: b => [|y b IH] /=; rewrite all_cat !all_map; apply/andP; split=> //; apply/allP.
have laws x b a : law (chance [seq o.1.1.1 | o <- side_by_side x b a]).
  have -> : [seq o.1.1.1 | o <- side_by_side x b a] = [seq c.1 | c <- halves (b ++ x :: a)].
    by rewrite halves_left -map_comp.
  by have [p0 p1] := halves_sum (b ++ x :: a); apply: chance_law => //; rewrite p1.
case=> -[b [x [a [-> ->]]]].
  exists (side_by_side x b a); rewrite -same_chances -halves_left.
  split; first by [].
  split; first exact: halves_right.
  split; first exact: laws.
  split; first exact: laws.
  split; first exact: none.
  split; first exact: (gdp_same (@model_images Q) (@model_some Q)).
  by move=> o /like[]; [left; left | right].
pose turned (o : outcome Q nat) : outcome Q nat := ((o.1.1.2, o.1.1.1), (o.1.2.2, o.1.2.1), o.2).
have chances : [seq o.1.1.1 | o <- [seq turned o | o <- side_by_side x b a]] =
    [seq o.1.1.1 | o <- side_by_side x b a] by rewrite same_chances -map_comp.
have chances' : [seq o.1.1.2 | o <- [seq turned o | o <- side_by_side x b a]] =
    [seq o.1.1.1 | o <- side_by_side x b a] by rewrite -map_comp.
exists [seq turned o | o <- side_by_side x b a]; rewrite chances chances'.
split; first by rewrite -map_comp; exact: halves_right.
split; first by rewrite -map_comp halves_left.
split; first exact: laws.
split; first exact: laws.
split; first by apply: none; rewrite all_map.
split; first exact: (gdp_same (@model_images Q) (@model_some Q)).
by move=> _ /mapP[o /like[near|same] ->] _ /=; [left; right | right].
Qed.
