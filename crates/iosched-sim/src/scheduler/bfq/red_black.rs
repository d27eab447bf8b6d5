//! A red-black tree of queues, balanced as the textbook says and as `lib/rbtree.c` does.
//!
//! bfq's choice depends on the shape of its trees, not only on their order: the search for an eligible
//! queue may stop at an ancestor, and the search for a neighbouring position begins where the descent
//! ended. So the shape is kept as the kernel keeps it. Each node knows the least start below it.

use super::queue::QueueId;

const NONE: usize = usize::MAX;

#[derive(Debug, Clone, Copy)]
struct Node {
    key: u64,
    start: u64,
    /// Least start of the node and all below it.
    least: u64,
    parent: usize,
    left: usize,
    right: usize,
    red: bool,
    member: bool,
}

const OUTSIDE: Node = Node {
    key: 0,
    start: 0,
    least: 0,
    parent: NONE,
    left: NONE,
    right: NONE,
    red: false,
    member: false,
};

#[derive(Debug, Clone)]
pub(super) struct Tree {
    /// By queue.
    nodes: Vec<Node>,
    root: usize,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree {
            nodes: Vec::new(),
            root: NONE,
        }
    }
}

/// Where the descent to a key ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Descent {
    /// At the key.
    At(QueueId),
    /// At the node below which the key would be inserted.
    Below(QueueId),
}

impl Tree {
    pub(super) fn is_empty(&self) -> bool {
        self.root == NONE
    }

    pub(super) fn contains(&self, id: QueueId) -> bool {
        self.nodes.get(id.index()).is_some_and(|node| node.member)
    }

    /// The least start of all.
    pub(super) fn least_start(&self) -> Option<u64> {
        (self.root != NONE).then(|| self.nodes[self.root].least)
    }

    /// The key of a member.
    pub(super) fn key(&self, id: QueueId) -> u64 {
        self.nodes[id.index()].key
    }

    /// The kernel's search for a node that starts at `limit` or before and has a small key: it stops at
    /// an eligible ancestor where the left branch it took turns out to have none on its way.
    pub(super) fn eligible(&self, limit: u64) -> Option<QueueId> {
        let mut at = self.root;
        let mut found = None;
        while at != NONE {
            let node = &self.nodes[at];
            if node.start <= limit {
                found = Some(QueueId::at(at));
            }
            if node.left != NONE && self.nodes[node.left].least <= limit {
                at = node.left;
            } else if found.is_some() {
                break;
            } else {
                at = node.right;
            }
        }
        found
    }

    /// Where a key is, or would be inserted.
    pub(super) fn descend(&self, key: u64) -> Option<Descent> {
        let mut at = self.root;
        let mut end = None;
        while at != NONE {
            let node = &self.nodes[at];
            if node.key == key {
                return Some(Descent::At(QueueId::at(at)));
            }
            end = Some(Descent::Below(QueueId::at(at)));
            at = if key < node.key {
                node.left
            } else {
                node.right
            };
        }
        end
    }

    /// The member after this one.
    pub(super) fn successor(&self, id: QueueId) -> Option<QueueId> {
        let mut at = id.index();
        if self.nodes[at].right != NONE {
            at = self.nodes[at].right;
            while self.nodes[at].left != NONE {
                at = self.nodes[at].left;
            }
            return Some(QueueId::at(at));
        }
        let mut above = self.nodes[at].parent;
        while above != NONE && self.nodes[above].right == at {
            at = above;
            above = self.nodes[at].parent;
        }
        (above != NONE).then(|| QueueId::at(above))
    }

    /// The member before this one.
    pub(super) fn predecessor(&self, id: QueueId) -> Option<QueueId> {
        let mut at = id.index();
        if self.nodes[at].left != NONE {
            at = self.nodes[at].left;
            while self.nodes[at].right != NONE {
                at = self.nodes[at].right;
            }
            return Some(QueueId::at(at));
        }
        let mut above = self.nodes[at].parent;
        while above != NONE && self.nodes[above].left == at {
            at = above;
            above = self.nodes[at].parent;
        }
        (above != NONE).then(|| QueueId::at(above))
    }

    /// Adds a queue; behind those of the same key.
    pub(super) fn insert(&mut self, id: QueueId, key: u64, start: u64) {
        let new = id.index();
        if new >= self.nodes.len() {
            self.nodes.resize(new + 1, OUTSIDE);
        }
        assert!(!self.nodes[new].member, "{id:?} stands in the tree");
        let (mut at, mut parent, mut goes_left) = (self.root, NONE, false);
        while at != NONE {
            parent = at;
            goes_left = key < self.nodes[at].key;
            at = if goes_left {
                self.nodes[at].left
            } else {
                self.nodes[at].right
            };
        }
        self.nodes[new] = Node {
            key,
            start,
            least: start,
            parent,
            left: NONE,
            right: NONE,
            red: true,
            member: true,
        };
        match (parent, goes_left) {
            (NONE, _) => self.root = new,
            (_, true) => self.nodes[parent].left = new,
            (_, false) => self.nodes[parent].right = new,
        }
        self.learn_least_upward(parent);
        self.balance_after_insert(new);
    }

    /// Takes a queue out.
    pub(super) fn remove(&mut self, id: QueueId) {
        let gone = id.index();
        assert!(self.nodes[gone].member, "{id:?} does not stand in the tree");
        let Node { left, right, .. } = self.nodes[gone];
        let (hole, parent, was_red);
        if left == NONE || right == NONE {
            hole = if left == NONE { right } else { left };
            (parent, was_red) = (self.nodes[gone].parent, self.nodes[gone].red);
            self.replace(gone, hole);
        } else {
            let mut heir = right;
            while self.nodes[heir].left != NONE {
                heir = self.nodes[heir].left;
            }
            (hole, was_red) = (self.nodes[heir].right, self.nodes[heir].red);
            if heir == right {
                parent = heir;
            } else {
                parent = self.nodes[heir].parent;
                self.replace(heir, hole);
                self.nodes[heir].right = right;
                self.nodes[right].parent = heir;
            }
            self.replace(gone, heir);
            self.nodes[heir].left = left;
            self.nodes[left].parent = heir;
            self.nodes[heir].red = self.nodes[gone].red;
        }
        self.nodes[gone] = OUTSIDE;
        self.learn_least_upward(parent);
        if !was_red {
            self.balance_after_remove(hole, parent);
        }
    }

    /// Puts `new`, which may be nothing, in the place of `old`.
    fn replace(&mut self, old: usize, new: usize) {
        let parent = self.nodes[old].parent;
        if parent == NONE {
            self.root = new;
        } else if self.nodes[parent].left == old {
            self.nodes[parent].left = new;
        } else {
            self.nodes[parent].right = new;
        }
        if new != NONE {
            self.nodes[new].parent = parent;
        }
    }

    fn learn_least(&mut self, at: usize) {
        let Node {
            start, left, right, ..
        } = self.nodes[at];
        let least_of = |child: usize| {
            if child == NONE {
                start
            } else {
                self.nodes[child].least
            }
        };
        self.nodes[at].least = start.min(least_of(left)).min(least_of(right));
    }

    fn learn_least_upward(&mut self, mut at: usize) {
        while at != NONE {
            self.learn_least(at);
            at = self.nodes[at].parent;
        }
    }

    fn is_red(&self, at: usize) -> bool {
        at != NONE && self.nodes[at].red
    }

    /// The child on one side goes up, the node down on the other.
    fn rotate(&mut self, at: usize, left: bool) {
        let Node {
            left: l, right: r, ..
        } = self.nodes[at];
        let up = if left { r } else { l };
        let inner = if left {
            self.nodes[up].left
        } else {
            self.nodes[up].right
        };
        self.replace(at, up);
        if left {
            self.nodes[at].right = inner;
            self.nodes[up].left = at;
        } else {
            self.nodes[at].left = inner;
            self.nodes[up].right = at;
        }
        if inner != NONE {
            self.nodes[inner].parent = at;
        }
        self.nodes[at].parent = up;
        self.learn_least(at);
        self.learn_least(up);
    }

    fn balance_after_insert(&mut self, mut at: usize) {
        while self.is_red(self.nodes[at].parent) {
            let mut parent = self.nodes[at].parent;
            let above = self.nodes[parent].parent;
            let on_left = self.nodes[above].left == parent;
            let uncle = if on_left {
                self.nodes[above].right
            } else {
                self.nodes[above].left
            };
            if self.is_red(uncle) {
                self.nodes[parent].red = false;
                self.nodes[uncle].red = false;
                self.nodes[above].red = true;
                at = above;
                continue;
            }
            let is_inner = (self.nodes[parent].left == at) != on_left;
            if is_inner {
                self.rotate(parent, on_left);
                std::mem::swap(&mut at, &mut parent);
            }
            self.nodes[parent].red = false;
            self.nodes[above].red = true;
            self.rotate(above, !on_left);
        }
        let root = self.root;
        self.nodes[root].red = false;
    }

    /// One black node is missing on the way to `at` (which may be nothing) below `parent`.
    fn balance_after_remove(&mut self, mut at: usize, mut parent: usize) {
        while parent != NONE && !self.is_red(at) {
            let on_left = self.nodes[parent].left == at;
            let beside = |tree: &Tree, parent: usize| {
                if on_left {
                    tree.nodes[parent].right
                } else {
                    tree.nodes[parent].left
                }
            };
            let mut sibling = beside(self, parent);
            if self.is_red(sibling) {
                self.nodes[sibling].red = false;
                self.nodes[parent].red = true;
                self.rotate(parent, on_left);
                sibling = beside(self, parent);
            }
            let Node { left, right, .. } = self.nodes[sibling];
            let (inner, outer) = if on_left {
                (left, right)
            } else {
                (right, left)
            };
            if !self.is_red(inner) && !self.is_red(outer) {
                self.nodes[sibling].red = true;
                at = parent;
                parent = self.nodes[at].parent;
                continue;
            }
            let mut outer = outer;
            if !self.is_red(outer) {
                self.nodes[inner].red = false;
                self.nodes[sibling].red = true;
                self.rotate(sibling, !on_left);
                outer = sibling;
                sibling = inner;
            }
            self.nodes[sibling].red = self.nodes[parent].red;
            self.nodes[parent].red = false;
            self.nodes[outer].red = false;
            self.rotate(parent, on_left);
            return;
        }
        if at != NONE {
            self.nodes[at].red = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Black nodes on each way down; panics where the tree breaks a rule of its kind.
    fn check(tree: &Tree, at: usize) -> usize {
        if at == NONE {
            return 1;
        }
        let node = &tree.nodes[at];
        for child in [node.left, node.right].into_iter().filter(|&it| it != NONE) {
            assert_eq!(tree.nodes[child].parent, at);
            assert!(!(node.red && tree.nodes[child].red), "two red in a row");
        }
        let least = |child: usize| {
            if child == NONE {
                u64::MAX
            } else {
                tree.nodes[child].least
            }
        };
        assert_eq!(
            node.least,
            node.start.min(least(node.left)).min(least(node.right))
        );
        let (left, right) = (check(tree, node.left), check(tree, node.right));
        assert_eq!(left, right, "as many black nodes on each way");
        left + usize::from(!node.red)
    }

    fn in_order(tree: &Tree) -> Vec<usize> {
        let mut at = tree.root;
        if at == NONE {
            return Vec::new();
        }
        while tree.nodes[at].left != NONE {
            at = tree.nodes[at].left;
        }
        let first = QueueId::at(at);
        let all = std::iter::successors(Some(first), |&id| tree.successor(id));
        all.map(QueueId::index).collect()
    }

    proptest! {
        #[test]
        fn it_stays_ordered_and_balanced_and_knows_the_least_starts(
            steps in prop::collection::vec((0..24_usize, 0..12_u64, 0..50_u64), 1..200),
        ) {
            let mut tree = Tree::default();
            let mut arrivals: Vec<(u64, usize, usize)> = Vec::new();
            for (number, &(id, key, start)) in steps.iter().enumerate() {
                let queue = QueueId::at(id);
                if tree.contains(queue) {
                    tree.remove(queue);
                    arrivals.retain(|&(_, _, other)| other != id);
                } else {
                    tree.insert(queue, key, start);
                    arrivals.push((key, number, id));
                }
                check(&tree, tree.root);
                arrivals.sort_unstable();
                let expected: Vec<_> = arrivals.iter().map(|&(_, _, id)| id).collect();
                prop_assert_eq!(in_order(&tree), expected);
            }
        }

    }

    #[test]
    fn the_search_stops_at_an_eligible_ancestor_as_the_kernels_does() {
        // The root is eligible; below its left branch only the right child of a late node is.
        let mut tree = Tree::default();
        for (id, key, start) in [(0, 40, 0), (1, 20, 9), (2, 60, 9), (3, 30, 1)] {
            tree.insert(QueueId::at(id), key, start);
        }
        assert_eq!(
            tree.eligible(5),
            Some(QueueId::at(0)),
            "and not 3, of the smaller key"
        );
    }

    #[test]
    fn a_descent_ends_at_the_key_or_where_it_would_be_inserted() {
        let mut tree = Tree::default();
        assert_eq!(tree.descend(1), None);
        for (id, key) in [(0, 20), (1, 10), (2, 30)] {
            tree.insert(QueueId::at(id), key, 0);
        }
        assert_eq!(tree.descend(10), Some(Descent::At(QueueId::at(1))));
        assert_eq!(tree.descend(15), Some(Descent::Below(QueueId::at(1))));
        assert_eq!(tree.descend(25), Some(Descent::Below(QueueId::at(2))));
        assert_eq!(tree.predecessor(QueueId::at(2)), Some(QueueId::at(0)));
        assert_eq!(tree.predecessor(QueueId::at(1)), None);
    }
}
