//! The other side of the vhost-user socket, as a virtual machine would be: memory that both sides map,
//! and two rings in it. One request at a time.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use vhost::vhost_user::message::{VhostUserProtocolFeatures, VhostUserVirtioFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemory, GuestMemoryMmap};
use vmm_sys_util::eventfd::EventFd;

const MEMORY: u64 = 4 << 20;
const SLOTS: u16 = 16;
const REQUEST: u64 = 0x10_0000;
const REPLY: u64 = 0x20_0000;
const REPLY_SIZE: u32 = 1 << 20;
/// Requests travel in the second queue; the first is for urgent ones.
const QUEUES: usize = 2;
const REQUEST_QUEUE: usize = 1;
const VERSION_1: u64 = 1 << 32;
const NEXT: u16 = 1;
const WRITE: u16 = 2;

pub struct FrontEnd {
    memory: GuestMemoryMmap,
    kick: EventFd,
    call: EventFd,
    sent: u16,
    /// The connection, and the events of the queue that is not used.
    _kept: (Frontend, Vec<EventFd>),
}

fn ring(queue: usize, part: u64) -> u64 {
    0x1_0000 * (queue as u64 + 1) + part * 0x1000
}

impl FrontEnd {
    pub fn connect(socket: UnixStream) -> Self {
        let file = File::from(memfd_create("guest", MemfdFlags::CLOEXEC).unwrap());
        ftruncate(&file, MEMORY).unwrap();
        let size = usize::try_from(MEMORY).unwrap();
        let region = (GuestAddress(0), size, Some(FileOffset::new(file, 0)));
        let memory = GuestMemoryMmap::from_ranges_with_files([region]).unwrap();

        let mut front = Frontend::from_stream(socket, QUEUES as u64);
        front.set_owner().unwrap();
        let features = front.get_features().unwrap();
        let wanted = VERSION_1 | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();
        assert_eq!(features & wanted, wanted);
        let protocol = front.get_protocol_features().unwrap();
        front.set_protocol_features(protocol & VhostUserProtocolFeatures::MQ).unwrap();
        front.set_features(wanted).unwrap();
        let regions: Vec<_> = memory
            .iter()
            .map(|region| VhostUserMemoryRegionInfo::from_guest_region(region).unwrap())
            .collect();
        front.set_mem_table(&regions).unwrap();

        let base = memory.iter().next().unwrap().as_ptr() as u64;
        let mut events = Vec::new();
        for queue in 0..QUEUES {
            let (kick, call) = (EventFd::new(0).unwrap(), EventFd::new(0).unwrap());
            front.set_vring_num(queue, SLOTS).unwrap();
            let addresses = VringConfigData {
                queue_max_size: SLOTS,
                queue_size: SLOTS,
                flags: 0,
                desc_table_addr: base + ring(queue, 0),
                avail_ring_addr: base + ring(queue, 1),
                used_ring_addr: base + ring(queue, 2),
                log_addr: None,
            };
            front.set_vring_addr(queue, &addresses).unwrap();
            front.set_vring_base(queue, 0).unwrap();
            front.set_vring_call(queue, &call).unwrap();
            front.set_vring_kick(queue, &kick).unwrap();
            front.set_vring_enable(queue, true).unwrap();
            events.push((kick, call));
        }
        let (kick, call) = events.remove(REQUEST_QUEUE);
        let rest = events.into_iter().flat_map(|(kick, call)| [kick, call]).collect();
        Self { memory, kick, call, sent: 0, _kept: (front, rest) }
    }

    /// Sends one request, waits until it was answered, and returns the answer. `None` when the server
    /// does not answer within ten seconds, as after its end.
    pub fn exchange(&mut self, request: &[u8]) -> Option<Vec<u8>> {
        let memory = &self.memory;
        let at = GuestAddress;
        memory.write_slice(request, at(REQUEST)).unwrap();
        let length = u32::try_from(request.len()).unwrap();
        let slots = [(REQUEST, length, NEXT, 1_u16), (REPLY, REPLY_SIZE, WRITE, 0)];
        for (number, (address, length, flags, next)) in slots.into_iter().enumerate() {
            let slot = ring(REQUEST_QUEUE, 0) + number as u64 * 16;
            memory.write_obj(address, at(slot)).unwrap();
            memory.write_obj(length, at(slot + 8)).unwrap();
            memory.write_obj(flags, at(slot + 12)).unwrap();
            memory.write_obj(next, at(slot + 14)).unwrap();
        }
        let available = ring(REQUEST_QUEUE, 1);
        memory.write_obj(0_u16, at(available + 4 + u64::from(self.sent % SLOTS) * 2)).unwrap();
        self.sent = self.sent.wrapping_add(1);
        memory.store(self.sent, at(available + 2), Ordering::Release).unwrap();
        self.kick.write(1).unwrap();

        let used = ring(REQUEST_QUEUE, 2);
        while memory.load::<u16>(at(used + 2), Ordering::Acquire).unwrap() != self.sent {
            // SAFETY: the event outlives the borrow.
            let call = unsafe { BorrowedFd::borrow_raw(self.call.as_raw_fd()) };
            let patience = Timespec { tv_sec: 10, tv_nsec: 0 };
            if poll(&mut [PollFd::from_borrowed_fd(call.as_fd(), PollFlags::IN)], Some(&patience)) == Ok(0) {
                return None;
            }
            self.call.read().unwrap();
        }
        let entry = used + 4 + u64::from(self.sent.wrapping_sub(1) % SLOTS) * 8;
        let length: u32 = memory.read_obj(at(entry + 4)).unwrap();
        let mut reply = vec![0; length as usize];
        memory.read_slice(&mut reply, at(REPLY)).unwrap();
        Some(reply)
    }
}
