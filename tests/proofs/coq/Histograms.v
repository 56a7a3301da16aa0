(** Thresholds on the counts of keys that nobody has listed, and on how far values are from changing. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum ssrint order.
From mathcomp Require Import ring zify.
Require Import Definitions Mechanisms Sums Transfer Products Labels Noise.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Parts.
Variable R : realFieldType.
Implicit Types (t d a b : R).

(** [a] of [P] is a law that [b] of is at most [t] times [Q]. *)
Definition in_part (T : eqType) a b t (P Q : T -> R) : Prop :=
  exists L : T -> R, law L /\ total L 1 /\ forall x, a * L x <= P x /\ b * L x <= t * Q x.

Lemma total_joint (T U : eqType) (A : T -> R) (B : U -> R) : law A -> law B -> total A 1 -> total B 1 ->
  total (joint A (fun=> B)) 1.
Proof.
move=> lA lB [_ lstA] [_ lstB]; split=> [s us|u le_u].
  by apply: mass_le1 => //; apply: joint_law.
have u0 : 0 <= u by have := le_u [::] isT; rewrite /mass big_nil.
apply: lstA => s us; have A0 := mass_ge0 s (law_ge0 lA).
move: A0; rewrite le_eqVlt => /orP[/eqP <- //|A_pos].
rewrite -[mass A s]mulr1 mulrC -ler_pdivl_mulr //; apply: lstB => l ul.
rewrite ler_pdivl_mulr //.
have us' : uniq [seq (x, y) | x <- s, y <- l] by rewrite allpairs_uniq // => -[x y] [x' y'].
have := le_u _ us'; rewrite /mass big_allpairs_dep /joint /=.
by under eq_bigr do rewrite -mulr_sumr; rewrite -mulr_suml mulrC.
Qed.

Lemma total_product (T : eqType) (Ls : seq (T -> R)) : each (fun L => law L /\ total L 1) Ls ->
  total (product Ls) 1.
Proof.
elim: Ls => [_|L Ls IH /= [[lL tL] eLs]].
  split=> [s us|u /(_ [:: [::]] isT)]; last by rewrite /mass big_seq1.
  by have := mass_le1 (product_law (I : each (@law R T) [::])) us.
have lLs : law (product Ls) by apply: product_law; elim: Ls eLs {IH} => //= L' Ls IH' [[lL' _] /IH'].
pose g (z : T * seq T) := z.1 :: z.2.
apply: (@total_through R _ _ g _ _ _ _ _ _ (total_joint lL lLs tL (IH eLs))) => //.
- by move=> [x xs] [y ys] [-> ->].
- by case=> [|x xs]; [rewrite /= eqxx | exists (x, xs)].
Qed.

Lemma in_part_product (K T : eqType) (ks : seq K) (P S : K -> T -> R) (a b t : K -> R) :
  (forall k, k \in ks -> 0 <= a k /\ 0 <= b k /\ in_part (a k) (b k) (t k) (P k) (S k)) ->
  in_part (\prod_(k <- ks) a k) (\prod_(k <- ks) b k) (\prod_(k <- ks) t k)
    (product [seq P k | k <- ks]) (product [seq S k | k <- ks]).
Proof.
move=> ok; suff [Ls [eLs le]] : exists Ls : seq (T -> R), each (fun L => law L /\ total L 1) Ls /\
    forall xs, (\prod_(k <- ks) a k) * product Ls xs <= product [seq P k | k <- ks] xs /\
               (\prod_(k <- ks) b k) * product Ls xs <= (\prod_(k <- ks) t k) * product [seq S k | k <- ks] xs.
  exists (product Ls); split; last by split=> //; exact: total_product.
  by apply: product_law; elim: Ls eLs {le} => //= L Ls IH [[lL _] /IH].
elim: ks ok => [_|k ks IH ok].
  by exists [::]; split=> // -[|x xs]; rewrite !big_nil !mul1r lexx.
have [|Ls [eLs le]] := IH; first by move=> k' in_ks; apply: ok; rewrite inE in_ks orbT.
have [a0 [b0 [L [lL [tL leL]]]]] := ok k (mem_head _ _).
have prod0 (c : K -> R) : (forall k', k' \in ks -> 0 <= c k') -> 0 <= \prod_(k' <- ks) c k'.
  by move=> c0; rewrite big_seq; apply: prodr_ge0.
have A0 : 0 <= \prod_(k' <- ks) a k' by apply: prod0 => k' in_ks; case: (ok k'); rewrite ?inE ?in_ks ?orbT.
have B0 : 0 <= \prod_(k' <- ks) b k'.
  by apply: prod0 => k' in_ks; case: (ok k') => [|_ []]; rewrite ?inE ?in_ks ?orbT.
have L0 xs : 0 <= product Ls xs.
  by apply: law_ge0; apply: product_law; elim: Ls eLs {le} => //= L' Ls IH' [[lL' _] /IH'].
exists (L :: Ls); split=> // -[|x xs]; rewrite !big_cons /= ?mulr0 //.
have [le1 le2] := leL x; have [le3 le4] := le xs; have l0 := law_ge0 lL x.
split; first by rewrite mulrACA; apply: ler_pmul => //; exact: mulr_ge0.
by rewrite mulrACA [X in _ <= X]mulrACA; apply: ler_pmul => //; exact: mulr_ge0.
Qed.

(** What is missing from a law when [c] of it is taken out. *)
Lemma rest_le (T : eqType) c (P L : T -> R) s : 0 <= c -> law P -> (forall x, 0 <= L x) -> total L 1 -> uniq s ->
  (forall x, c * L x <= P x) -> mass P s <= c * mass L s + (1 - c).
Proof.
move=> c0 lP L0 [_ least] us cL; rewrite -ler_subl_addl.
have diff l : mass P l - c * mass L l = \sum_(x <- l) (P x - c * L x) by rewrite sumrB mulr_sumr.
move: c0; rewrite le_eqVlt => /orP[/eqP<-|c_pos]; first by rewrite mul0r !subr0; exact: mass_le1.
rewrite ler_subr_addr addrC -ler_subr_addr -[X in X <= _]mulr1 mulrC -ler_pdivl_mulr //.
apply: least => l ul; rewrite ler_pdivl_mulr // mulrC ler_subr_addr addrC -ler_subr_addr.
have le1 : mass (fun x => P x - c * L x) s <= mass (fun x => P x - c * L x) (undup (s ++ l)).
  by apply: mass_sub => // [x|x xs]; rewrite ?subr_ge0 ?cL // mem_cat xs.
have le2 : mass L l <= mass L (undup (s ++ l)).
  by apply: mass_sub => // x xs; rewrite mem_cat xs orbT.
have le3 := mass_le1 lP (undup_uniq (s ++ l)).
move: le1; rewrite {1 2}/mass -!diff => le1; apply: le_trans le1 _.
by apply: ler_sub => //; apply: ler_wpmul2l => //; exact: ltW.
Qed.

Lemma in_part_close (T : eqType) a b c t (P S : T -> R) : 0 <= c -> c <= a -> c <= b -> 0 <= t -> law P ->
  (forall x, 0 <= S x) -> in_part a b t P S -> close t (1 - c) P S.
Proof.
move=> c0 ca cb t0 lP S0 [L [lL [tL le]]] s us; have L0 := law_ge0 lL.
have cL x : c * L x <= P x by apply: le_trans (le x).1; apply: ler_wpmul2r.
apply: le_trans (rest_le c0 lP L0 tL us cL) _; rewrite ler_add2r /mass !mulr_sumr.
by apply: ler_sum => x _; apply: le_trans (le x).2; apply: ler_wpmul2r.
Qed.

End Parts.

Section Histograms.
Variables (R : realFieldType) (T : eqType) (none : T).
Notation silent := (silent R none).
Notation thresholded := (@thresholded R T none).

Lemma silent_law : law silent /\ total silent 1.
Proof.
have tot : total silent 1.
  split=> [s us|u /(_ [:: none] isT)]; last by rewrite /mass big_seq1 /silent eqxx.
  rewrite /mass /silent; case in_s: (none \in s).
    by rewrite (bigD1_seq none) //= eqxx big1 ?addr0 // => z /negbTE->.
  by rewrite big1_seq ?ler01 // => z /= zs; case: eqP => // e; rewrite -e zs in in_s.
by split=> //; split=> [u|]; [exact: ler0n | exact: (proj1 tot)].
Qed.

Definition left_kept (cell : nat -> T -> R) (c : nat * nat) : R := if c.2 == 0%N then cell c.1 none else 1.
Definition right_kept (cell : nat -> T -> R) (c : nat * nat) : R := if c.1 == 0%N then cell c.2 none else 1.

Lemma key_part (t : R) cell (n m : nat) : 1 <= t -> thresholded t cell ->
  in_part (left_kept cell (n, m)) (right_kept cell (n, m)) (t ^+ `|n%:Z - m%:Z|%N) (cell n) (cell m).
Proof.
move=> t1 [cell0 [lcell near]]; have [lS tS] := silent_law.
have le_t k (x : R) : 0 <= x -> x <= t ^+ k * x by move=> x0; rewrite ler_pemull // exprn_ege1.
have some k u : cell k none * silent u <= cell k u.
  rewrite /silent; case: eqP => [->|_]; first by rewrite mulr1.
  by rewrite mulr0; apply: law_ge0; case: (lcell k).
have ge0 k u : 0 <= cell k u by apply: law_ge0; case: (lcell k).
rewrite /left_kept /right_kept /=; case: n m => [|n] [|m] /=.
- exists silent; split=> //; split=> // x; rewrite !cell0 {1 4}/silent eqxx !mul1r lexx; split=> //; apply: le_t; exact: ler0n.
- exists silent; split=> //; split=> // x; rewrite cell0 mul1r lexx; split=> //.
  by apply: le_trans (some _ x) (le_t _ _ (ge0 _ _)).
- exists silent; split=> //; split=> // x; split; first exact: some.
  by rewrite cell0 mul1r; apply: le_t; exact: ler0n.
have [lC tC] := lcell n.+1; exists (cell n.+1); split=> //; split=> // x; rewrite !mul1r lexx; split=> //.
have := near n m [:: x] isT; rewrite /mass !big_seq1 addr0 (_ : `|n.+1%:Z - m.+1%:Z|%N = `|n%:Z - m%:Z|%N) //.
lia.
Qed.

(** The chances that nothing is released of the keys that only the first, or only the second, dataset has. *)
Section Rows.
Variables (X K : eqType) (keys : seq K).
Notation alone := (alone none keys).
Notation distance_of := (distance_of keys).
Notation released := (released keys).

Lemma cells_law (cell : nat -> T -> R) (count : seq X -> K -> nat) D :
  (forall n, law (cell n)) -> law (released cell count D).
Proof.
by move=> lc; apply: product_law; elim: keys => //= k ks IH; split.
Qed.

Theorem stability_histogram (near : seq X -> seq X -> Prop) (t d : R) (moved : nat) cell (count : seq X -> K -> nat) :
  1 <= t -> d <= 1 -> thresholded t cell ->
  (forall D E, near D E -> (distance_of count D E <= moved)%N /\
     1 - d <= alone cell count D E /\ 1 - d <= alone cell count E D) ->
  private near (t ^+ moved) d (released cell count).
Proof.
move=> t1 d1 th moves D E near_DE; have [far [aloneD aloneE]] := moves D E near_DE.
have [cell0 [lcell _]] := th.
have lc n : law (cell n) by case: (lcell n).
rewrite -[d](subKr 1); pose c k := (count D k, count E k).
have ge0 n : 0 <= cell n none by exact: law_ge0.
apply: (@in_part_close R _ (\prod_(k <- keys) left_kept cell (c k)) (\prod_(k <- keys) right_kept cell (c k))).
- by rewrite subr_ge0.
- by rewrite /left_kept /= -big_mkcond.
- by rewrite /right_kept /= -big_mkcond.
- by apply: exprn_ge0; apply: le_trans t1; exact: ler01.
- exact: cells_law.
- exact: (law_ge0 (cells_law count E lc)).
have [L [lL [tL le]]] : in_part (\prod_(k <- keys) left_kept cell (c k)) (\prod_(k <- keys) right_kept cell (c k))
    (\prod_(k <- keys) t ^+ `|(count D k)%:Z - (count E k)%:Z|%N) (released cell count D) (released cell count E).
  apply: in_part_product => k _; split; first by rewrite /left_kept; case: eqP => _; [exact: ge0 | exact: ler01].
  by split; [rewrite /right_kept; case: eqP => _; [exact: ge0 | exact: ler01] | exact: key_part].
exists L; split=> //; split=> // x; have [le1 le2] := le x; split=> //; apply: le_trans le2 _.
apply: ler_wpmul2r; first exact: (law_ge0 (cells_law count E lc)).
by rewrite prodrXr; apply: ler_weexpn2l.
Qed.

(** Of keys that only one dataset has, at most [k], each held by one record. *)
Theorem alone_once (cell : nat -> T -> R) (count : seq X -> K -> nat) D E k : (forall n, law (cell n)) ->
  cell 0%N none = 1 -> (forall x, count E x == 0%N -> (count D x <= 1)%N) ->
  (\sum_(x <- keys | count E x == 0%N) count D x <= k)%N -> cell 1%N none ^+ k <= alone cell count D E.
Proof.
move=> laws cell0 once few.
have q0 := law_ge0 (laws 1%N) none; have q1 := law_le1 none (laws 1%N).
apply: (@le_trans _ _ (cell 1%N none ^+ (\sum_(x <- keys | count E x == 0%N) count D x))).
  exact: ler_wiexpn2l.
rewrite -prodrXr /alone le_eqVlt; apply/orP; left; apply/eqP; apply: eq_bigr => x /once.
by case: (count D x) => [|[|n]] //; rewrite ?expr0 ?expr1.
Qed.

End Rows.

(** Values of which each is released with how far it is from changing, if that is beyond a threshold. [quiet]:
    the chance that nothing is said of a value that one record can change. *)
Theorem propose_test_release (X I V : eqType) (near : seq X -> seq X -> Prop) (t quiet : R)
    (cell : V -> nat -> T -> R) (tested : seq I) (value : I -> seq X -> V) (far : I -> seq X -> nat) :
  1 <= t -> 0 <= quiet <= 1 -> (forall v n, law (cell v n) /\ total (cell v n) 1) ->
  (forall v n m, (`|n%:Z - m%:Z| <= 1)%N -> close t 0 (cell v n) (cell v m)) ->
  (forall v, quiet <= cell v 1%N none) ->
  (forall D E, near D E -> forall i, (far i D = 1%N /\ far i E = 1%N) \/
     (value i D = value i E /\ (`|(far i D)%:Z - (far i E)%:Z| <= 1)%N)) ->
  private near (t ^+ size tested) (1 - quiet ^+ size tested)
    (fun D => product [seq cell (value i D) (far i D) | i <- tested]).
Proof.
move=> t1 /andP[q0 q1] lc near_cells said moves D E near_DE; have [lS tS] := silent_law.
pose P S i := cell (value i S) (far i S).
have lP S : law (product [seq P S i | i <- tested]).
  by apply: product_law; elim: tested => //= i rest IH; split=> //; case: (lc (value i S) (far i S)).
have ge0 v n u : 0 <= cell v n u by apply: law_ge0; case: (lc v n).
have t0 : 0 <= t by apply: le_trans t1; exact: ler01.
pose a i := if (far i D == 1%N) && (far i E == 1%N) then quiet else 1.
have a01 i : 0 <= a i <= 1 by rewrite /a; case: ifP => _; rewrite ?q0 ?q1 // ler01 lexx.
have const (x : R) : x ^+ size tested = \prod_(i <- tested) x.
  by rewrite big_const_seq count_predT iter_mulr_1.
have le_a : quiet ^+ size tested <= \prod_(i <- tested) a i.
  rewrite const; apply: ler_prod => i _; rewrite q0 /a /=.
  by case: ifP => _ //; exact: lexx.
apply: (@in_part_close R _ (\prod_(i <- tested) a i) (\prod_(i <- tested) a i)) => //.
- exact: exprn_ge0.
- exact: exprn_ge0.
- exact: (lP D).
- exact: (law_ge0 (lP E)).
rewrite const.
apply: (@in_part_product R _ _ tested (P D) (P E) a a (fun=> t)) => i _.
case/andP: (a01 i) => ai0 _; split=> //; split=> //; rewrite /a.
have some S u : far i S = 1%N -> quiet * silent u <= P S i u.
  move=> e; rewrite /silent /P e; case: eqP => [->|_]; rewrite ?mulr1 ?mulr0 //.
have le_t x : 0 <= x -> x <= t * x by move=> x0; rewrite ler_pemull.
case: ifP => [/andP[/eqP eD /eqP eE]|no].
  exists silent; split=> //; split=> // u; split; first exact: some.
  by apply: le_trans (some E u eE) (le_t _ (ge0 _ _ _)).
have [[eD eE]|[eV eF]] := moves D E near_DE i; first by rewrite eD eE in no.
exists (P D i); split; first by case: (lc (value i D) (far i D)).
split=> [|u]; first by case: (lc (value i D) (far i D)).
rewrite !mul1r lexx; split=> //; rewrite /P eV.
by have := near_cells (value i E) _ _ eF [:: u] isT; rewrite /mass !big_seq1 addr0.
Qed.

End Histograms.
