//! A pool of unused queues.

use spillway_base::lock::Mutex;

use super::IoQueue;

/// Queues that no thread uses now. They are kept because opening one takes several system calls.
#[derive(Default)]
pub struct IdleQueues(Mutex<Vec<Box<dyn IoQueue>>>);

impl IdleQueues {
    /// Returns an idle queue with nothing in flight, or a new one.
    pub fn take(
        &self,
        open: impl FnOnce() -> Option<Box<dyn IoQueue>>,
    ) -> Option<Box<dyn IoQueue>> {
        let known = self.0.lock().pop();
        match known {
            Some(mut queue) => {
                while queue.wait().is_some() {}
                Some(queue)
            }
            None => open(),
        }
    }

    /// Keeps a queue if fewer than `most` are kept, or if it has operations in flight, which a
    /// later caller must wait for.
    pub fn keep(&self, queue: Box<dyn IoQueue>, most: usize) {
        let mut queues = self.0.lock();
        if queues.len() < most || !queue.is_idle() {
            queues.push(queue);
        } else {
            drop(queues);
            drop(queue);
        }
    }
}
