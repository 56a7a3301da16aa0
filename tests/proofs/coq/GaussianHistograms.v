(** Thresholds on the counts of keys that nobody has listed, under Gaussian noise: approximate GDP. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum ssrint order.
From mathcomp Require Import ring zify.
Require Import Definitions Mechanisms Sums Transfer Products Labels Noise Domination Gaussian GaussianParts Histograms.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section GaussianHistograms.
Variable R : realFieldType.
Variable gaussian : R -> (nat -> R) -> (nat -> R) -> Prop.
Hypothesis images_are_laws : forall m A B, gaussian m A B ->
  law A /\ law B /\ total A 1 /\ total B 1.
Hypothesis some_image : forall m, 0 <= m -> exists A B, gaussian m A B.
Hypothesis common_refinement : forall m A B A' B', gaussian m A B -> gaussian m A' B' ->
  exists C D, gaussian m C D /\ coarser A B C D /\ coarser A' B' C D.
Hypothesis products_add : forall m n A B C D, gaussian m A B -> gaussian n C D ->
  forall a b d, 0 <= a -> 0 <= b -> all_tested gaussian (m + n) a b d ->
  tested a b d (joint A (fun=> C)) (joint B (fun=> D)).

Notation gdp := (@gdp R gaussian).
Notation approximate_gdp := (@approximate_gdp R gaussian).
Notation gaussian_thresholded := (@gaussian_thresholded R gaussian).

(** [a] of [P] is a law, and [b] of one that is [m]-close to it is at most [S]. *)
Definition in_gaussian_part (T : eqType) a b m (P S : T -> R) : Prop :=
  exists L L' : T -> R, law L /\ total L 1 /\ law L' /\ gdp m L L' /\
    forall x, a * L x <= P x /\ b * L' x <= S x.

Lemma in_gaussian_part_product (K T : eqType) (ks : seq K) (P S : K -> T -> R) (a b m : K -> R) :
  (forall k, 0 <= m k /\ 0 <= a k /\ 0 <= b k /\ in_gaussian_part (a k) (b k) (m k) (P k) (S k)) ->
  in_gaussian_part (\prod_(k <- ks) a k) (\prod_(k <- ks) b k) (\sum_(k <- ks) m k)
    (product [seq P k | k <- ks]) (product [seq S k | k <- ks]).
Proof.
move=> ok; suff [Ls [Ls' [eL [eL' [g le]]]]] : exists Ls Ls' : seq (T -> R),
    each (fun L => law L /\ total L 1) Ls /\ each (@law R T) Ls' /\
    gdp (\sum_(k <- ks) m k) (product Ls) (product Ls') /\ forall xs,
      (\prod_(k <- ks) a k) * product Ls xs <= product [seq P k | k <- ks] xs /\
      (\prod_(k <- ks) b k) * product Ls' xs <= product [seq S k | k <- ks] xs.
  exists (product Ls), (product Ls'); split; last split; [| exact: total_product | split].
  - by apply: product_law; elim: Ls eL {g le} => //= L Ls IH [[lL _] /IH].
  - exact: product_law.
  - by split.
elim: ks => [|k ks [Ls [Ls' [eL [eL' [g le]]]]]].
  exists [::], [::]; split=> //; split=> //; split.
    by rewrite big_nil; apply: (gdp_same images_are_laws some_image (lexx 0)); exact: (@product_law R T [::] I).
  by case=> [|x xs]; rewrite !big_nil !mul1r lexx.
have [m0 [a0 [b0 [L [L' [lL [tL [lL' [gL leL]]]]]]]]] := ok k.
have lLs : law (product Ls) by apply: product_law; elim: Ls eL {g le} => //= M Ls IH [[lM _] /IH].
have lLs' : law (product Ls') by exact: product_law.
have rest0 : 0 <= \sum_(k' <- ks) m k' by apply: sumr_ge0 => k' _; case: (ok k').
have A0 : 0 <= \prod_(k' <- ks) a k' by apply: prodr_ge0 => k' _; case: (ok k') => _ [].
have B0 : 0 <= \prod_(k' <- ks) b k' by apply: prodr_ge0 => k' _; case: (ok k') => _ [_ []].
exists (L :: Ls), (L' :: Ls'); split=> //; split=> //; split.
  rewrite big_cons => x y z x0 y0 all_m s us; rewrite !mass_product.
  by apply: (gdp_joint images_are_laws some_image common_refinement products_add m0 rest0 _ _ gL (fun=> g) x0 y0 all_m);
    [exact: law_ge0 | exact: law_ge0 | exact: uncons_uniq].
case=> [|x xs]; rewrite !big_cons /= ?mulr0 //.
have [le1 le2] := leL x; have [le3 le4] := le xs; have l0 := law_ge0 lL x; have l1 := law_ge0 lL' x.
have p0 := law_ge0 lLs xs; have p1 := law_ge0 lLs' xs.
by split; rewrite mulrACA; apply: ler_pmul => //; exact: mulr_ge0.
Qed.

Lemma in_gaussian_part_gdp (T : eqType) a b c m (P S : T -> R) : 0 <= c <= 1 -> c <= a -> c <= b -> 0 <= m ->
  law P -> in_gaussian_part a b m P S -> approximate_gdp m (1 - c) P S.
Proof.
case/andP=> c0 c1 ca cb m0 lP [L [L' [lL [tL [lL' [g le]]]]]]; have L0 := law_ge0 lL; have L0' := law_ge0 lL'.
have cL x : c * L x <= P x by apply: le_trans (le x).1; apply: ler_wpmul2r.
have scaled (F : T -> R) s : mass (fun x => c * F x) s = c * mass F s by rewrite /mass mulr_sumr.
exists (fun x => c * L x); split; first split=> [x|s us].
- by rewrite mulr_ge0 // cL.
- by rewrite scaled; apply: rest_le c0 lP L0 tL us cL.
move=> x y z x0 y0 all_m s us; have z0 := tested_ge0 some_image m0 all_m.
rewrite scaled mulrCA; apply: le_trans (ler_wpmul2l c0 (g x y z x0 y0 all_m s us)) _.
rewrite mulrDr; apply: ler_add; last by rewrite ler_pimull.
rewrite mulrCA; apply: ler_wpmul2l => //; rewrite /mass mulr_sumr; apply: ler_sum => u _.
by apply: le_trans (le u).2; apply: ler_wpmul2r.
Qed.

Theorem gaussian_stability_histogram (X K T : eqType) (none : T) (keys : seq K)
    (near : seq X -> seq X -> Prop) m d (moved : nat) cell (count : seq X -> K -> nat) :
  0 <= m -> 0 <= d <= 1 -> gaussian_thresholded none m cell ->
  (forall D E, near D E -> (squares keys count D E <= moved)%N /\
     1 - d <= alone none keys cell count D E /\ 1 - d <= alone none keys cell count E D) ->
  forall D E, near D E ->
    approximate_gdp (m * moved%:R) d (released keys cell count D) (released keys cell count E).
Proof.
move=> m0 /andP[d0 d1] [cell0 [lcell gcell]] moves D E near_DE.
have [far [aloneD aloneE]] := moves D E near_DE; have [lS tS] := silent_law R none.
have lc n : law (cell n) by case: (lcell n).
have ge0 n u : 0 <= cell n u by exact: law_ge0.
pose c k := (count D k, count E k); pose apart k : nat := `|(count D k)%:Z - (count E k)%:Z|%N.
have same (k : R) (F : T -> R) : 0 <= k -> law F -> gdp k F F by exact: (gdp_same images_are_laws some_image).
have mk k : 0 <= m * (apart k ^ 2)%:R by rewrite mulr_ge0 // ler0n.
have some k u : cell k none * silent R none u <= cell k u.
  by rewrite /silent; case: eqP => [->|_]; [rewrite mulr1 | rewrite mulr0].
have part k : in_gaussian_part (left_kept none cell (c k)) (right_kept none cell (c k)) (m * (apart k ^ 2)%:R)
    (cell (count D k)) (cell (count E k)).
  rewrite /left_kept /right_kept /=; move: (mk k); rewrite /apart; case: (count D k) (count E k) => [|i] [|j] /= k0.
  - exists (silent R none), (silent R none); split=> //; split=> //; split=> //; split; first exact: same.
    by move=> x; split; exact: some.
  - exists (silent R none), (silent R none); split=> //; split=> //; split=> //; split; first exact: same.
    by move=> x; rewrite !cell0 mul1r lexx; split=> //; exact: some.
  - exists (silent R none), (silent R none); split=> //; split=> //; split=> //; split; first exact: same.
    by move=> x; rewrite !cell0 mul1r lexx; split=> //; exact: some.
  exists (cell i.+1), (cell j.+1); split=> //; split; first by case: (lcell i.+1).
  split=> //; split; last by move=> x; rewrite !mul1r.
  rewrite (_ : `|i.+1%:Z - j.+1%:Z|%N = `|i%:Z - j%:Z|%N); first exact: gcell.
  clear; lia.
have pos k : 0 <= left_kept none cell (c k) /\ 0 <= right_kept none cell (c k).
  by rewrite /left_kept /right_kept; split; case: eqP => _; [exact: ge0 | exact: ler01 | exact: ge0 | exact: ler01].
have whole := @in_gaussian_part_product K T keys (fun k => cell (count D k)) (fun k => cell (count E k))
  (fun k => left_kept none cell (c k)) (fun k => right_kept none cell (c k)) (fun k => m * (apart k ^ 2)%:R).
have {}whole := whole (fun k => conj (mk k) (conj (pos k).1 (conj (pos k).2 (part k)))).
have lP : law (released keys cell count D) by exact: cells_law.
have in01 : 0 <= 1 - d <= 1 by rewrite subr_ge0 d1 ler_subl_addr ler_addl.
have sum0 : 0 <= \sum_(k <- keys) m * (apart k ^ 2)%:R by apply: sumr_ge0.
have [] := @in_gaussian_part_gdp _ _ _ (1 - d) _ _ _ in01 _ _ sum0 lP whole.
- by rewrite /left_kept /= -big_mkcond.
- by rewrite /right_kept /= -big_mkcond.
move=> P' [cutP gP]; exists P'; split; first by rewrite subKr in cutP.
apply: (gdp_weaken images_are_laws some_image products_add _ gP); rewrite sum0 /=.
by rewrite -mulr_sumr -natr_sum; apply: ler_wpmul2l => //; rewrite ler_nat.
Qed.

End GaussianHistograms.
