(** The Gaussian premises can be met together: nothing is proved from a contradiction. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum order.
Require Import Definitions Mechanisms Sums Domination Gaussian.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Model.
Variable R : realFieldType.
Implicit Types (a b d m n : R).

(** One certain cell; where m > 0 another one on the right: pairs that tell everything. *)
Definition model m (A B : nat -> R) : Prop :=
  0 <= m /\ A = certain R 0%N /\ B = certain R (if m == 0 then 0%N else 1%N).

Lemma certain_total (k : nat) : law (certain R k) /\ total (certain R k) 1.
Proof.
split; first exact: certain_law.
have -> : 1 = mass (certain R k) [:: k] by rewrite mass_certain // mem_head.
by apply: total_finite => // i; rewrite ?ler0n // inE /certain => /negbTE->.
Qed.

Theorem model_images m A B : model m A B -> law A /\ law B /\ total A 1 /\ total B 1.
Proof.
case=> _ [-> ->]; have [l0 t0] := certain_total 0%N.
by have [l1 t1] := certain_total (if m == 0 then 0%N else 1%N).
Qed.

Theorem model_some m : 0 <= m -> exists A B, model m A B.
Proof. by move=> m0; do 2!eexists; split=> //; split; reflexivity. Qed.

Theorem model_refined m A B A' B' : model m A B -> model m A' B' ->
  exists C D, model m C D /\ coarser A B C D /\ coarser A' B' C D.
Proof.
move=> [m0 [-> ->]] [_ [-> ->]].
by do 2!eexists; split; [split=> //; split; reflexivity | split=> s us; exists s].
Qed.

Theorem model_products m n A B C D : model m A B -> model n C D -> forall a b d, 0 <= a -> 0 <= b ->
  all_tested model (m + n) a b d -> tested a b d (joint A (fun=> C)) (joint B (fun=> D)).
Proof.
move=> [m0 [-> ->]] [n0 [-> ->]] a b d a0 b0 tests s us.
have pair j k : mass (joint (certain R j) (fun=> certain R k)) s = ((j, k) \in s)%:R.
  rewrite /mass /joint /certain; case in_s: ((j, k) \in s).
    rewrite (bigD1_seq (j, k)) //= !eqxx mulr1 big1 ?addr0 // => -[x y] /=.
    by rewrite xpair_eqE; case: (x == j); case: (y == k); rewrite ?mulr0 ?mul0r.
  rewrite big1_seq // => -[x y] /=; case: eqP => [->|_]; rewrite ?mul0r //.
  by case: eqP => [->|_]; rewrite ?mulr0 // in_s.
rewrite !pair.
have mn0 : 0 <= m + n by exact: addr_ge0.
have := tests _ _ (conj mn0 (conj erefl erefl)).
rewrite /tested paddr_eq0 // => test.
have d0 : 0 <= d by have := test [::] isT; rewrite /mass !big_nil !mulr0 add0r.
case in_s: ((0%N, 0%N) \in s); last first.
  by rewrite mulr0 addr_ge0 // mulr_ge0 ?ler0n.
have := test [:: 0%N] isT; rewrite !mass_certain // inE eqxx.
case: (m == 0); case: (n == 0) => //=; rewrite ?in_s // ?inE /= ?mulr0 add0r => a_d;
  by apply: le_trans a_d _; rewrite ler_addr mulr_ge0 ?ler0n.
Qed.

End Model.
