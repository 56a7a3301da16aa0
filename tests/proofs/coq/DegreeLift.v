(** A filter that keeps records by noisy scores, then a mechanism that is private for friendly neighbors. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum order.
From mathcomp Require Import ring.
Require Import Definitions Mechanisms Sums Transfer Products Domination Gaussian GaussianParts.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section DegreeLift.
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

Section Outcomes.
Variable X : eqType.
Notation outcome := (outcome R).
Notation kept_alike := (@kept_alike R gaussian X).
Lemma choose_cuts (T : eqType) n f (M : mechanism X R T) (os : seq (outcome X)) : has_laws M -> 0 <= n -> 0 <= f ->
  (forall o, o \in os -> good o -> approximate_gdp n f (M o.1.2.1) (M o.1.2.2)) ->
  exists Ks : nat -> T -> R, forall i, (forall u, 0 <= Ks i u) /\ forall o0, (i < size os)%N -> good (nth o0 os i) ->
    cut f (M (nth o0 os i).1.2.1) (Ks i) /\ gdp n (Ks i) (M (nth o0 os i).1.2.2).
Proof.
move=> lM n0 f0; elim: os => [|o os IH] ok.
  by exists (fun _ _ => 0).
have [Ks oks] : exists Ks : nat -> T -> R, forall i, (forall u, 0 <= Ks i u) /\ forall o0, (i < size os)%N -> good (nth o0 os i) ->
    cut f (M (nth o0 os i).1.2.1) (Ks i) /\ gdp n (Ks i) (M (nth o0 os i).1.2.2).
  by apply: IH => o' in_os; apply: ok; rewrite inE in_os orbT.
case go: (good o); last first.
  exists (fun i => if i is j.+1 then Ks j else fun=> 0) => -[|i] /=; last exact: oks.
  by split=> // _ _; rewrite go.
have [K [cutK gK]] := ok o (mem_head _ _) go.
exists (fun i => if i is j.+1 then Ks j else K) => -[|i] /=; last exact: oks.
by split=> // u; have /andP[] := cutK.1 u.
Qed.

Lemma sum_chance (os : seq (outcome X)) (w : outcome X -> R) (G : nat -> R) (o0 : outcome X) (p : pred (outcome X)) :
  \sum_(o <- os | p o) w o = \sum_(i <- iota 0 (size os) | p (nth o0 os i)) w (nth o0 os i).
Proof. by rewrite (big_nth o0) /index_iota subn0. Qed.

Lemma mass_rows (T : eqType) (F : nat -> R) (G : nat -> T -> R) (xs : seq nat) (s : seq T) :
  mass (joint F G) [seq (x, u) | x <- xs, u <- s] = \sum_(x <- xs) F x * mass (G x) s.
Proof. by rewrite /mass big_allpairs_dep; apply: eq_bigr => x _; rewrite mulr_sumr. Qed.

Lemma lifted alike (T : eqType) m n e f (M : mechanism X R T) keep D E :
  0 <= m -> 0 <= n -> 0 <= f -> has_laws M -> kept_alike alike m e keep D E ->
  (forall A B, alike A B -> approximate_gdp n f (M A) (M B)) ->
  approximate_gdp (m + n) (e + f) (on_kept keep M D) (on_kept keep M E).
Proof.
move=> m0 n0 f0 lM [os [eD [eE [lP [lS [rare [gPS like]]]]]]] pM.
have [Ks oks] : exists Ks : nat -> T -> R, forall i, (forall u, 0 <= Ks i u) /\ forall o0, (i < size os)%N -> good (nth o0 os i) ->
    cut f (M (nth o0 os i).1.2.1) (Ks i) /\ gdp n (Ks i) (M (nth o0 os i).1.2.2).
  by apply: choose_cuts => // o in_os go; apply: pM; exact: like.
set P := chance _ in lP gPS; set S := chance _ in lS gPS.
pose o0 : outcome X := ((0, 0), ([::], [::]), true); pose at_ i := nth o0 os i.
have atP i : (i < size os)%N -> P i = (at_ i).1.1.1 by move=> lt; rewrite /P /chance (nth_map o0).
have atS i : (i < size os)%N -> S i = (at_ i).1.1.2 by move=> lt; rewrite /S /chance (nth_map o0).
pose K i := if (i < size os)%N && good (at_ i) then Ks i else fun=> 0.
pose L i := M (at_ i).1.2.2.
pose places := iota 0 (size os).
have sumL u : on_kept keep M D u = \sum_(i <- places) P i * M (at_ i).1.2.1 u.
  rewrite /on_kept (eD (fun A => M A u)) big_map (big_nth o0) /index_iota subn0.
  by apply: eq_big_seq => i; rewrite mem_iota add0n /= => lt; rewrite atP.
have sumR u : on_kept keep M E u = \sum_(i <- places) S i * L i u.
  rewrite /on_kept (eE (fun A => M A u)) big_map (big_nth o0) /index_iota subn0.
  by apply: eq_big_seq => i; rewrite mem_iota add0n /= => lt; rewrite atS.
pose N u := \sum_(i <- places) P i * K i u.
have P0 := law_ge0 lP; have S0 := law_ge0 lS.
have K0 i u : 0 <= K i u by rewrite /K; case: ifP => // _; case: (oks i).
have KM i u : (i \in places) -> K i u <= M (at_ i).1.2.1 u.
  rewrite mem_iota add0n /= /K => lt; rewrite lt /=; case: ifP => [go|_]; last exact: law_ge0 (lM _) u.
  by have [[/(_ u) /andP[]]] := (oks i).2 o0 lt go.
have gK i : gdp n (K i) (L i).
  rewrite /K; case: ifP => [/andP[lt go]|_]; last by apply: gdp_none => //; exact: (law_ge0 (lM _)).
  by have [] := (oks i).2 o0 lt go.
exists N; split; first split.
- move=> u; rewrite sumL; apply/andP; split; first by apply: sumr_ge0 => i _; exact: mulr_ge0.
  rewrite /N !big_seq; apply: ler_sum => i in_i; apply: ler_wpmul2l => //; exact: KM.
- move=> s us; rewrite [X in X <= _](eq_bigr _ (fun u _ => sumL u)) exchange_big /=.
  rewrite /mass [X in _ <= X + _](exchange_big) /=.
  apply: (@le_trans _ _ (\sum_(i <- places) (P i * mass (K i) s + (P i * f + if good (at_ i) then 0 else P i)))).
    rewrite !big_seq; apply: ler_sum => i in_i; rewrite -mulr_sumr.
    have Pi0 := P0 i; move: (in_i); rewrite mem_iota add0n /= /K => lt; rewrite lt /=; case go: (good (at_ i)).
      have [[_ /(_ s us) le_f] _] := (oks i).2 o0 lt go.
      by rewrite addr0 -mulrDr; apply: ler_wpmul2l.
    have -> : mass (fun=> 0) s = 0 :> R by rewrite /mass big1.
    rewrite mulr0 add0r; apply: (@le_trans _ _ (P i)); last by rewrite ler_addr mulr_ge0.
    by rewrite ler_pimulr //; exact: mass_le1.
  rewrite big_split /= big_split /= -mulr_suml; apply: ler_add.
    by apply: ler_sum => i _; rewrite mulr_sumr.
  rewrite addrC; apply: ler_add; last first.
    by rewrite -[X in _ <= X]mul1r; apply: ler_wpmul2r => //; apply: (mass_le1 lP); exact: iota_uniq.
  apply: le_trans rare; rewrite [X in _ <= X](big_nth o0) /index_iota subn0 [X in _ <= X]big_mkcond /=.
  rewrite !big_seq; apply: ler_sum => i; rewrite mem_iota add0n /= => lt.
  by rewrite -/(at_ i) atP //; case: (good _).
move=> a b d a0 b0 all_mn s us.
have joint_mn := gdp_joint images_are_laws some_image common_refinement products_add m0 n0 P0 S0 gPS gK a0 b0 all_mn.
have us' : uniq [seq (i, u) | i <- places, u <- s].
  by rewrite allpairs_uniq ?iota_uniq // => -[i u] [j v].
have := joint_mn _ us'; rewrite !mass_rows.
have -> : mass (on_kept keep M E) s = \sum_(i <- places) S i * mass (L i) s.
  rewrite /mass [LHS](eq_bigr _ (fun u _ => sumR u)) exchange_big /=.
  by apply: eq_bigr => i _; rewrite mulr_sumr.
have -> // : mass N s = \sum_(i <- places) P i * mass (K i) s.
by rewrite /mass exchange_big /=; apply: eq_bigr => i _; rewrite mulr_sumr.
Qed.

Lemma weaken_cut (T : eqType) m n e f (P S : T -> R) :
  0 <= m <= n -> e <= f -> approximate_gdp m e P S -> approximate_gdp n f P S.
Proof.
move=> mn ef [P' [[PP cutP] gP]]; exists P'; split; last exact: gdp_weaken gP.
by split=> // s us; apply: le_trans (cutP s us) _; rewrite ler_add2l.
Qed.

(** [m], [o]: how far the scores of the others move when the record in question has the friends that it takes
    to be kept, or has not; [n], [f]: the claim for [friends]; [e]: how likely somebody is kept who has too few. *)
Theorem noisy_degree_lift (near friends : seq X -> seq X -> Prop) (T : eqType) m n o e f most
    (M : mechanism X R T) keep :
  0 <= m -> 0 <= n -> 0 <= o -> 0 <= e -> 0 <= f -> m + n <= most -> o <= most -> has_laws M ->
  (forall A B, friends A B -> approximate_gdp n f (M A) (M B)) ->
  (forall D E, near D E -> kept_alike (fun A B => friends A B \/ A = B) m e keep D E \/
                           kept_alike eq o e keep D E) ->
  forall D E, near D E -> approximate_gdp most (f + e) (on_kept keep M D) (on_kept keep M E).
Proof.
move=> m0 n0 o0 e0 f0 mn_most o_most lM pM kept D E /kept.
have same k A : 0 <= k -> gdp k (M A) (M A).
  by move=> k0; apply: (gdp_same images_are_laws some_image k0); exact: lM.
have uncut g A : 0 <= g -> cut g (M A) (M A).
  move=> g0; split=> [u|s us]; last by rewrite ler_addl.
  by rewrite lexx andbT; exact: law_ge0 (lM A) u.
case=> alike.
  apply: (@weaken_cut _ (m + n) most (e + f)); [by rewrite addr_ge0 | by rewrite addrC |].
  apply: (lifted m0 n0 f0 lM alike) => A B [/pM //|->].
  by exists (M B); split; [exact: uncut | exact: same].
apply: (@weaken_cut _ (o + 0) most (e + 0)); [by rewrite addr0 o0 | by rewrite addr0 ler_addr |].
apply: (lifted o0 (lexx 0) (lexx 0) lM alike) => A B ->.
by exists (M B); split; [exact: uncut | exact: same].
Qed.

End Outcomes.
End DegreeLift.
