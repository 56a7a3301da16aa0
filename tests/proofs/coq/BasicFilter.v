(** The basic filter's chances move by at most 2 under add-remove and by at most 3 under replace. *)

From mathcomp Require Import all_ssreflect ssralg ssrnum order.
From mathcomp Require Import ring zify.
Require Import Definitions Mechanisms Sums Filters FriendlyLift.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section BasicFilter.
Variables (R : realFieldType) (X : eqType) (friends : rel X).
Notation degree := (degree friends).
Notation basic_chance := (basic_chance R).
Notation basic_coins := (@basic_coins R X friends).
Notation share_friends := (share_friends friends).
Hypothesis friends_sym : symmetric friends.

Lemma share_friends_hereditary : hereditary share_friends.
Proof. by move=> D E fD /mem_subseq sub x y xE yE; apply: fD; exact: sub. Qed.

Lemma degree_le (D : seq X) x : (degree D x <= size D)%N.
Proof. exact: count_size. Qed.

Lemma basic_chance01 k n : (k <= n)%N -> 0 <= basic_chance k n <= 1.
Proof.
move=> kn; rewrite divr_ge0 ?ler0n //=; case: n kn => [|n] kn.
  by rewrite /basic_chance invr0 mulr0 ler01.
by rewrite /basic_chance ler_pdivr_mulr ?ltr0n // mul1r ler_nat; lia.
Qed.

Lemma majority k n : 0 < basic_chance k n -> (n < 2 * k)%N.
Proof.
apply: contraTT; rewrite -leqNgt -leNgt => kn; rewrite /basic_chance.
have -> : (2 * k - n = 0)%N by lia.
by rewrite mulr0n mul0r lexx.
Qed.

Lemma kept_share_friends D kept :
  subseq kept [seq c.1 | c <- basic_coins D & 0 < c.2] -> share_friends kept.
Proof.
move=> /mem_subseq sub x y /sub + /sub.
have large z : z \in [seq c.1 | c <- basic_coins D & 0 < c.2] -> (size D < 2 * degree D z)%N.
  by case/mapP=> c; rewrite mem_filter => /andP[+ /mapP[w _ e] ->]; rewrite e => /majority.
move=> /large dx /large dy; have := count_predUI (friends x) (friends y) D.
have := count_size (predU (friends x) (friends y)) D; rewrite -/(degree D x) -/(degree D y) => le_n e.
have : (0 < count (predI (friends x) (friends y)) D)%N by lia.
by rewrite -has_count => /hasP[z _ /andP[xz yz]]; exists z; rewrite xz.
Qed.

(** Two fractions with denominators m + 1 and m, by their whole numerators. *)
Lemma fractions_near (a b c m : nat) : (0 < m)%N -> (a * m <= b * m.+1 + c * m)%N ->
  (b * m.+1 <= a * m + c * m)%N -> `|a%:R / m.+1%:R - b%:R / m%:R| <= c%:R / m.+1%:R :> R.
Proof.
move=> m0 up down.
have m_pos : 0 < m%:R :> R by rewrite ltr0n.
have M_pos : 0 < m.+1%:R :> R by rewrite ltr0n.
have nM : m.+1%:R != 0 :> R by rewrite gt_eqF. 
have nm : m%:R != 0 :> R by rewrite gt_eqF.
have -> : a%:R / m.+1%:R - b%:R / m%:R = (a * m)%:R / (m.+1 * m)%:R - (b * m.+1)%:R / (m.+1 * m)%:R :> R.
  rewrite !natrM; move: nM nm {m_pos M_pos up down}; move: (m.+1%:R : R) (m%:R : R) => u v nu nv.
  by field; rewrite ?nu ?nv.
have -> : c%:R / m.+1%:R = (c * m)%:R / (m.+1 * m)%:R :> R.
  rewrite !natrM; move: nM nm {m_pos M_pos up down}; move: (m.+1%:R : R) (m%:R : R) => u v nu nv.
  by field; rewrite ?nu ?nv.
have Mm_pos : 0 < (m.+1 * m)%:R :> R by rewrite ltr0n muln_gt0 m0.
rewrite -mulrBl normrM (gtr0_norm (x := _^-1)) ?invr_gt0 // ler_pmul2r ?invr_gt0 //.
rewrite ler_norml ler_subr_addl ler_subl_addl ler_subl_addr -!natrD !ler_nat.
by apply/andP; split; lia.
Qed.

Lemma moved_friend k m : (k <= m)%N -> `|basic_chance k.+1 m.+1 - basic_chance k m| <= 1%:R / m.+1%:R.
Proof.
case: m => [|m] km.
  have -> : k = 0%N by lia.
  have -> : basic_chance 0 0 = 0 by rewrite /basic_chance muln0 sub0n mulr0n mul0r.
  by rewrite subr0 ger0_norm ?divr_ge0 ?ler0n // lexx.
rewrite /basic_chance; set b := (2 * k - m.+1)%N.
have [[-> b0]|[-> bm]] : (2 * k.+1 - m.+2 = 0 /\ b = 0 \/ 2 * k.+1 - m.+2 = b.+1 /\ b <= m.+1)%N.
- by rewrite /b; lia.
- by rewrite b0; apply: fractions_near.
by apply: fractions_near => //; nia.
Qed.

Lemma moved_stranger k m : (k <= m)%N -> `|basic_chance k m.+1 - basic_chance k m| <= 2%:R / m.+1%:R.
Proof.
case: m => [|m] km.
  have -> : k = 0%N by lia.
  have none n : basic_chance 0 n = 0 by rewrite /basic_chance muln0 sub0n mulr0n mul0r.
  by rewrite !none subr0 normr0 divr_ge0 ?ler0n.
rewrite /basic_chance; set a := (2 * k - m.+2)%N.
have [[a0 ->]|[-> am]] : (a = 0 /\ 2 * k - m.+1 = 0 \/ 2 * k - m.+1 = a.+1 /\ a <= m)%N.
- by rewrite /a; lia.
- by rewrite a0; apply: fractions_near.
by apply: fractions_near => //; nia.
Qed.

Lemma moved_replaced k (c c' : bool) n :
  `|basic_chance (k + c) n - basic_chance (k + c') n| <= (2 * (c != c'))%:R / n%:R.
Proof.
rewrite /basic_chance -mulrBl normrM (ger0_norm (x := _^-1)) ?invr_ge0 ?ler0n //.
apply: ler_wpmul2r; first by rewrite invr_ge0 ler0n.
rewrite ler_norml ler_subr_addl ler_subl_addl ler_subl_addr -!natrD !ler_nat.
by case: c; case: c'; apply/andP; split; lia.
Qed.

Lemma degree_cat b x a y : degree (b ++ x :: a) y = (degree (b ++ a) y + friends y x)%N.
Proof. by rewrite /degree !count_cat /=; lia. Qed.

(** Among neighbors' records: each other one's move, and the sum of what these are at most. *)
Lemma sum_moves (r : seq X) (move : X -> R) (c : X -> nat) n :
  (forall y, y \in r -> move y <= (c y)%:R / n%:R) ->
  \sum_(y <- r) move y <= (\sum_(y <- r) c y)%N%:R / n%:R.
Proof.
move=> le_c; rewrite natr_sum mulr_suml !big_seq; exact: ler_sum.
Qed.

Definition removed_moves (b a : seq X) x : seq (sided R X) :=
  let both y := (y, (Some (basic_chance (degree (b ++ x :: a) y) (size (b ++ x :: a))),
                     Some (basic_chance (degree (b ++ a) y) (size (b ++ a))))) in
  [seq both y | y <- b] ++
  (x, (Some (basic_chance (degree (b ++ x :: a) x) (size (b ++ x :: a))), None)) ::
  [seq both y | y <- a].

Lemma removed_distance b a x : distance [seq as_move m | m <- removed_moves b a x] <= 2.
Proof.
rewrite /distance /removed_moves map_cat big_cat /= big_cons -!map_comp !big_map /=.
rewrite addrCA -big_cat /= subr0.
set m := size (b ++ a); have -> : size (b ++ x :: a) = m.+1 by rewrite /m !size_cat /= addnS.
have moved y : y \in b ++ a -> `|basic_chance (degree (b ++ x :: a) y) m.+1 -
    basic_chance (degree (b ++ a) y) m| <= (if friends y x then 1 else 2)%N%:R / m.+1%:R.
  move=> _; rewrite degree_cat; have km := degree_le (b ++ a) y.
  by case: (friends y x); rewrite ?addn1 ?addn0; [exact: moved_friend | exact: moved_stranger].
apply: (@le_trans _ _ ((2 * degree (b ++ x :: a) x - m.+1)%N%:R / m.+1%:R +
    (\sum_(y <- b ++ a) (if friends y x then 1 else 2))%N%:R / m.+1%:R)).
  by apply: ler_add; [rewrite ger0_norm // divr_ge0 ?ler0n | exact: sum_moves].
have -> : (\sum_(y <- b ++ a) (if friends y x then 1 else 2) = degree (b ++ a) x + 2 * (m - degree (b ++ a) x))%N.
  have : (\sum_(y <- b ++ a) (if friends y x then 1 else 2) + degree (b ++ a) x = 2 * m)%N.
    rewrite /m /degree; elim: (b ++ a) => [|y r IH] /=; first by rewrite big_nil.
    by rewrite big_cons (friends_sym x y); case: (friends y x); lia.
  by have := degree_le (b ++ a) x; rewrite -/m; lia.
rewrite -mulrDl -natrD ler_pdivr_mulr ?ltr0n // -natrM ler_nat degree_cat.
by have := degree_le (b ++ a) x; rewrite -/m; case: (friends x x); lia.
Qed.

Lemma pmap_all (A B C : Type) (g : B -> option C) (h : A -> B) (f : A -> C) r :
  (forall y, g (h y) = Some (f y)) -> pmap g [seq h y | y <- r] = [seq f y | y <- r].
Proof. by move=> gh; elim: r => //= y r ->; rewrite gh. Qed.

Lemma removed_coins b a x :
  basic_coins (b ++ x :: a) = coins_of fst (removed_moves b a x) /\
  basic_coins (b ++ a) = coins_of snd (removed_moves b a x).
Proof.
rewrite /coins_of /removed_moves !pmap_cat /=.
rewrite !(@pmap_all X _ _ (fun m => omap (pair m.1) m.2.1) _
  (fun y => (y, basic_chance (degree (b ++ x :: a) y) (size (b ++ x :: a))))) //.
rewrite !(@pmap_all X _ _ (fun m => omap (pair m.1) m.2.2) _
  (fun y => (y, basic_chance (degree (b ++ a) y) (size (b ++ a))))) //.
by rewrite /basic_coins !map_cat.
Qed.

Definition mirrored (m : sided R X) : sided R X := (m.1, (m.2.2, m.2.1)).

Lemma mirrored_coins moves :
  coins_of fst (map mirrored moves) = coins_of snd moves /\
  coins_of snd (map mirrored moves) = coins_of fst moves.
Proof. by rewrite /coins_of; elim: moves => //= m moves [-> ->]. Qed.

Lemma mirrored_distance moves :
  distance [seq as_move m | m <- map mirrored moves] = distance [seq as_move m | m <- moves].
Proof. by rewrite /distance !big_map; apply: eq_bigr => m _ /=; rewrite distrC. Qed.

Lemma basic_sides D : (forall c, c \in basic_coins D -> 0 <= c.2 <= 1) /\
  forall kept, subseq kept [seq c.1 | c <- basic_coins D & 0 < c.2] -> share_friends kept.
Proof.
split; last exact: kept_share_friends.
by move=> _ /mapP[x _ ->] /=; apply: basic_chance01; exact: degree_le.
Qed.

Theorem basic_filter_add_remove : stable (@add_remove X) share_friends 2 basic_coins.
Proof.
split=> [D|D E]; first exact: basic_sides.
case=> -[b [x [a [-> ->]]]]; have [cD cE] := removed_coins b a x.
  by exists (removed_moves b a x); rewrite -cD -cE -distance_sided; split=> //; split=> //; exact: removed_distance.
have [mD mE] := mirrored_coins (removed_moves b a x).
exists (map mirrored (removed_moves b a x)); rewrite mD mE -cD -cE -distance_sided mirrored_distance.
by split=> //; split=> //; exact: removed_distance.
Qed.

Definition replaced_moves (b a : seq X) x y : seq (sided R X) :=
  let D := b ++ x :: a in let E := b ++ y :: a in
  let both z := (z, (Some (basic_chance (degree D z) (size D)), Some (basic_chance (degree E z) (size E)))) in
  [seq both z | z <- b] ++ (x, (Some (basic_chance (degree D x) (size D)), None)) ::
  (y, (None, Some (basic_chance (degree E y) (size E)))) :: [seq both z | z <- a].

Lemma replaced_coins b a x y :
  basic_coins (b ++ x :: a) = coins_of fst (replaced_moves b a x y) /\
  basic_coins (b ++ y :: a) = coins_of snd (replaced_moves b a x y).
Proof.
rewrite /coins_of /replaced_moves !pmap_cat /=.
rewrite !(@pmap_all X _ _ (fun m => omap (pair m.1) m.2.1) _
  (fun z => (z, basic_chance (degree (b ++ x :: a) z) (size (b ++ x :: a))))) //.
rewrite !(@pmap_all X _ _ (fun m => omap (pair m.1) m.2.2) _
  (fun z => (z, basic_chance (degree (b ++ y :: a) z) (size (b ++ y :: a))))) //.
by rewrite /basic_coins !map_cat.
Qed.

Lemma replaced_distance b a x y : distance [seq as_move m | m <- replaced_moves b a x y] <= 3.
Proof.
rewrite /distance /replaced_moves map_cat big_cat /= !big_cons -!map_comp !big_map /=.
rewrite addrCA [X in _ + X]addrCA -big_cat /= subr0 sub0r normrN.
have size_y : size (b ++ y :: a) = size (b ++ x :: a) by rewrite !size_cat.
rewrite size_y; set n := size (b ++ x :: a).
have n_r : n = (size (b ++ a)).+1 by rewrite /n !size_cat /= addnS.
have moved z : z \in b ++ a -> `|basic_chance (degree (b ++ x :: a) z) n -
    basic_chance (degree (b ++ y :: a) z) n| <= (2 * (friends z x != friends z y))%:R / n%:R.
  by move=> _; rewrite !degree_cat; exact: moved_replaced.
apply: (@le_trans _ _ ((2 * degree (b ++ x :: a) x - n)%N%:R / n%:R +
    ((2 * degree (b ++ y :: a) y - n)%N%:R / n%:R +
     (\sum_(z <- b ++ a) (2 * (friends z x != friends z y)))%N%:R / n%:R))).
  apply: ler_add; first by rewrite ger0_norm // divr_ge0 ?ler0n.
  by apply: ler_add; [rewrite ger0_norm // divr_ge0 ?ler0n | exact: sum_moves].
set c := (\sum_(z <- _) _)%N.
have [c_le [c_less c_few]] : (c <= 2 * (degree (b ++ a) x + degree (b ++ a) y) /\
    c + 2 * (degree (b ++ a) x + degree (b ++ a) y) <= 4 * size (b ++ a) /\ c <= 2 * size (b ++ a))%N.
  rewrite /c /degree; elim: (b ++ a) => [|z r IH] /=; first by rewrite big_nil.
  by rewrite big_cons (friends_sym x z) (friends_sym y z); case: (friends z x); case: (friends z y);
    move: IH; rewrite /=; lia.
rewrite -!mulrDl -!natrD ler_pdivr_mulr; last by rewrite n_r ltr0n.
rewrite -natrM ler_nat !degree_cat.
have := degree_le (b ++ a) x; have := degree_le (b ++ a) y.
by move: c_le c_less c_few; case: (friends x x); case: (friends y y); rewrite n_r /=; lia.
Qed.

Theorem basic_filter_replace : stable (@replace X) share_friends 3 basic_coins.
Proof.
split=> [D|D E]; first exact: basic_sides.
case=> b [x [y [a [-> ->]]]]; have [cD cE] := replaced_coins b a x y.
by exists (replaced_moves b a x y); rewrite -cD -cE -distance_sided; split=> //; split=> //; exact: replaced_distance.
Qed.

End BasicFilter.
