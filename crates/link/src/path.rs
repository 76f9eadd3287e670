//! One direction of a path: drops at the entry, one or several bottlenecks, propagation and the impairments behind
//! it.

use core::fmt;
use core::time::Duration;

use event::Instant;

use crate::{
    Bottlenecks, Coalesce, Dice, Dropped, Duplicate, Gate, Jitter, Line, Loss, Merge, Outages, Packet,
    Policer, Propagation, Reorder, Shape, Stage, Then, Tick,
};

/// Independent random decisions of a path.
#[derive(Clone, Copy)]
enum Question {
    Loss = 1,
    Jitter,
    Reorder,
    Duplicate,
}

/// One direction of a path.
pub struct Path {
    counted: u64,
    gates: Vec<Box<dyn Gate + Send>>,
    stages: Then<Bottlenecks, Box<dyn Stage + Send>>,
}

impl Path {
    /// An empty path without impairments.
    pub fn new(shape: &Shape) -> Path {
        Path::of(&Line::plain(*shape), Dice::new(0, 0))
    }

    /// An empty path. `dice` takes its random decisions.
    pub fn of(line: &Line, dice: Dice) -> Path {
        let dice = |question: Question| dice.another(question as u64);
        let mut gates: Vec<Box<dyn Gate + Send>> = Vec::new();
        if !line.outages.is_empty() {
            gates.push(Box::new(Outages::new(line.outages.clone())));
        }
        if let Some(contract) = line.police {
            gates.push(Box::new(Policer::new(contract)));
        }
        if let Some(model) = &line.loss {
            gates.push(Box::new(Loss::new(model.clone(), dice(Question::Loss))));
        }
        let mut behind: Box<dyn Stage + Send> = Box::new(Propagation::new(line.shape.delay));
        if let Some(model) = line.jitter {
            behind = Box::new(Then::new(behind, Jitter::new(model, dice(Question::Jitter))));
        }
        if let Some(model) = line.reorder {
            behind = Box::new(Then::new(behind, Reorder::new(model, dice(Question::Reorder))));
        }
        if let Some(period) = line.merge {
            behind = Box::new(Then::new(behind, Merge::new(period)));
        }
        if let Some(hold) = line.coalesce {
            behind = Box::new(Then::new(behind, Coalesce::new(hold)));
        }
        if let Some(period) = line.tick {
            behind = Box::new(Then::new(behind, Tick::new(period)));
        }
        if let Some(share) = line.duplicate {
            behind = Box::new(Then::new(behind, Duplicate::new(share, dice(Question::Duplicate))));
        }
        Path { counted: 0, gates, stages: Then::new(Bottlenecks::of(line), behind) }
    }

    /// Sets the origin of schedules.
    pub fn begin(&mut self, now: Instant) {
        self.gates.iter_mut().for_each(|gate| gate.begin(now));
    }

    /// Bytes on the wire of the packets that wait for the bottleneck.
    pub fn waiting_bytes(&self) -> u64 {
        self.stages.first().waiting_bytes()
    }

    /// End of the serialisation in progress; `None` while the wire is idle.
    pub fn busy_until(&self) -> Option<Instant> {
        self.stages.first().busy_until()
    }
}

impl Stage for Path {
    fn push(&mut self, now: Instant, mut packet: Packet) -> Result<(), Dropped> {
        self.counted += 1;
        packet.number = self.counted;
        let mut verdict = Ok(());
        // Every gate sees every packet: the state of one must not depend on the verdict of another.
        for gate in &mut self.gates {
            let said = gate.admit(now, &packet);
            verdict = verdict.and(said);
        }
        verdict.map_err(|fate| Dropped { packet, fate })?;
        self.stages.push(now, packet)
    }

    fn next_at(&self) -> Option<Instant> {
        self.stages.next_at()
    }

    fn pop(&mut self, now: Instant) -> Option<(Instant, Packet)> {
        self.stages.pop(now)
    }

    fn shortest(&self) -> Duration {
        self.stages.shortest()
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Path").field("counted", &self.counted).finish_non_exhaustive()
    }
}
