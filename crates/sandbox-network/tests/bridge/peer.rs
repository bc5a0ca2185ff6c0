//! A guest: a TCP/IP stack behind the socket that QEMU would hold.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use msb_smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use msb_smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use msb_smoltcp::socket::{tcp, udp};
use msb_smoltcp::time::Instant as StackInstant;
use msb_smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, IpAddress, IpCidr, IpEndpoint,
    IpProtocol, Ipv4Address, Ipv4Packet, Ipv4Repr, Ipv6Address, TcpControl, TcpPacket, TcpRepr, TcpSeqNumber,
};
use sandbox_wire::BootNetwork;

pub const PATIENCE: Duration = Duration::from_secs(20);
/// A datagram that is dropped has no answer: how long to wait for none.
pub const SILENCE: Duration = Duration::from_millis(600);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tcp {
    Refused,
    /// Everything the other side sent until it closed.
    Said(Vec<u8>),
    Silent,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dns {
    Addresses(Vec<[u8; 4]>),
    /// Any other response code.
    Code(u8),
    Silent,
}

/// What came of one look at a connection.
#[derive(Debug)]
pub enum Stream {
    Refused,
    /// What arrived since the last look, if anything.
    Data(Vec<u8>),
    /// The other side closed, and everything it sent was given before.
    Ended,
}

/// A connection under way.
#[derive(Debug)]
pub struct Open {
    handle: SocketHandle,
    connected: bool,
    unsent: Vec<u8>,
}

struct Card {
    socket: UnixStream,
    unread: Vec<u8>,
    received: VecDeque<Vec<u8>>,
    sent: VecDeque<Vec<u8>>,
}

impl Card {
    /// Moves frames between the socket and the queues, waiting a little for some.
    fn exchange(&mut self) {
        for frame in self.sent.drain(..) {
            let mut bytes = u32::try_from(frame.len()).unwrap().to_be_bytes().to_vec();
            bytes.extend(frame);
            self.socket.write_all(&bytes).unwrap();
        }
        let mut chunk = vec![0; 65536];
        if let Ok(count) = self.socket.read(&mut chunk) {
            assert!(count > 0, "the bridge closed its end");
            self.unread.extend_from_slice(&chunk[..count]);
        }
        while let Some((prefix, rest)) = self.unread.split_first_chunk::<4>() {
            let length = u32::from_be_bytes(*prefix) as usize;
            if rest.len() < length {
                break;
            }
            self.received.push_back(rest[..length].to_vec());
            self.unread.drain(..4 + length);
        }
    }
}

struct Received(Vec<u8>);
struct Sending<'a>(&'a mut VecDeque<Vec<u8>>);

impl phy::RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl phy::TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        let mut frame = vec![0; length];
        let result = f(&mut frame);
        self.0.push_back(frame);
        result
    }
}

impl Device for Card {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sending<'a>;

    fn receive(&mut self, _: StackInstant) -> Option<(Received, Sending<'_>)> {
        let frame = self.received.pop_front()?;
        Some((Received(frame), Sending(&mut self.sent)))
    }

    fn transmit(&mut self, _: StackInstant) -> Option<Sending<'_>> {
        Some(Sending(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.max_transmission_unit = 1514;
        capabilities.medium = Medium::Ethernet;
        capabilities
    }
}

pub struct Peer {
    card: Card,
    interface: Interface,
    sockets: SocketSet<'static>,
    pub gateway: IpAddr,
    resolver: IpAddr,
    next_port: u16,
    begin: Instant,
}

impl Peer {
    pub fn new(socket: UnixStream, slot: u16, boot: &BootNetwork) -> Self {
        socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
        let mut card = Card { socket, unread: Vec::new(), received: VecDeque::new(), sent: VecDeque::new() };
        let [high, low] = slot.to_be_bytes();
        let mac = EthernetAddress([0x02, 0x6d, 0x73, high, low, 0x02]);
        let mut interface = Interface::new(Config::new(mac.into()), &mut card, StackInstant::ZERO);
        let (address, prefix) = boot.ipv4.as_ref().unwrap().split_once('/').unwrap();
        let address: Ipv4Address = address.parse().unwrap();
        interface.update_ip_addrs(|addresses| {
            addresses.push(IpCidr::new(IpAddress::Ipv4(address), prefix.parse().unwrap())).unwrap();
        });
        if let (Some(address), Some(gateway)) = (&boot.ipv6, &boot.ipv6_gateway) {
            let (address, prefix) = address.split_once('/').unwrap();
            let address: Ipv6Address = address.parse().unwrap();
            interface.update_ip_addrs(|addresses| {
                addresses.push(IpCidr::new(IpAddress::Ipv6(address), prefix.parse().unwrap())).unwrap();
            });
            interface.routes_mut().add_default_ipv6_route(gateway.parse::<Ipv6Address>().unwrap()).unwrap();
        }
        let gateway: Ipv4Address = boot.ipv4_gateway.as_ref().unwrap().parse().unwrap();
        interface.routes_mut().add_default_ipv4_route(gateway).unwrap();
        Self {
            card,
            interface,
            sockets: SocketSet::new(Vec::new()),
            gateway: gateway.into(),
            resolver: boot.nameservers[0].parse().unwrap(),
            next_port: 40_000,
            begin: Instant::now(),
        }
    }

    fn turn(&mut self) {
        let now = StackInstant::from_micros(i64::try_from(self.begin.elapsed().as_micros()).unwrap());
        self.interface.poll(now, &mut self.card, &mut self.sockets);
        self.card.exchange();
    }

    fn port(&mut self) -> u16 {
        self.next_port += 1;
        self.next_port
    }

    /// Bytes as they are, whether or not they are frames.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.card.socket.write_all(bytes).unwrap();
    }

    /// The guest's own address in the family of `other`.
    pub fn address(&self, other: IpAddr) -> IpAddr {
        match other {
            IpAddr::V4(_) => self.interface.ipv4_addr().unwrap().into(),
            IpAddr::V6(_) => self.interface.ipv6_addr().unwrap().into(),
        }
    }

    /// Sends a frame past the stack; whether one that is `wanted` comes back in time. All others are the stack's.
    pub fn answered(&mut self, frame: Vec<u8>, patience: Duration, wanted: impl Fn(&[u8]) -> bool) -> bool {
        self.card.sent.push_back(frame);
        let begin = Instant::now();
        while begin.elapsed() < patience {
            self.turn();
            if let Some(at) = self.card.received.iter().position(|frame| wanted(frame)) {
                self.card.received.remove(at);
                return true;
            }
        }
        false
    }

    /// Sends the first packet of a connection to any address whatever, past the stack's own rules.
    pub fn knock(&mut self, to: [u8; 4], port: u16) {
        let syn = TcpRepr { max_seg_size: Some(1400), ..segment(self.port(), port, TcpControl::Syn) };
        let frame = self.by_hand(to, &syn);
        self.card.sent.push_back(frame);
        self.card.exchange();
    }

    /// Opens a connection and says `words` in one breath with the end of the handshake, as a fast guest does; whether
    /// the answer is there before an acknowledgement without one, which the bridge puts off for a while.
    pub fn is_answered_at_once(&mut self, to: [u8; 4], port: u16, words: &[u8]) -> bool {
        let local = self.port();
        let syn = TcpRepr { max_seg_size: Some(1400), ..segment(local, port, TcpControl::Syn) };
        let frame = self.by_hand(to, &syn);
        self.card.sent.push_back(frame);
        let (seq, says) = self.heard_at(local);
        assert!(!says, "{port} answers before it is asked");
        let end = TcpRepr {
            seq_number: syn.seq_number + 1,
            ack_number: Some(seq + 1),
            ..segment(local, port, TcpControl::None)
        };
        let said = TcpRepr { control: TcpControl::Psh, payload: words, ..end };
        // The stack sends what waits with one write for each: these two are to be one.
        let both = [self.by_hand(to, &end), self.by_hand(to, &said)];
        let prefixed =
            both.map(|frame| [&u32::try_from(frame.len()).unwrap().to_be_bytes()[..], &frame].concat());
        self.raw(&prefixed.concat());
        self.heard_at(local).1
    }

    /// The next segment to a port of which the stack knows nothing: its number, and whether it says something.
    fn heard_at(&mut self, port: u16) -> (TcpSeqNumber, bool) {
        let begin = Instant::now();
        loop {
            let mut received = self.card.received.iter().enumerate();
            let found = received.find_map(|(at, frame)| Some((at, heard(frame, port)?)));
            if let Some((at, segment)) = found {
                self.card.received.remove(at);
                return segment;
            }
            assert!(begin.elapsed() < PATIENCE, "nothing comes to port {port}");
            self.turn();
        }
    }

    /// A frame with this segment, past the stack.
    fn by_hand(&self, to: [u8; 4], tcp: &TcpRepr<'_>) -> Vec<u8> {
        let (from, to) = (self.interface.ipv4_addr().unwrap(), Ipv4Address::from(to));
        let ip = Ipv4Repr {
            src_addr: from,
            dst_addr: to,
            next_header: IpProtocol::Tcp,
            payload_len: tcp.buffer_len(),
            hop_limit: 64,
        };
        let ethernet = EthernetRepr {
            src_addr: EthernetAddress([0x02, 0x6d, 0x73, 0, 7, 2]),
            dst_addr: EthernetAddress([0x02, 0x6d, 0x73, 0, 7, 1]),
            ethertype: EthernetProtocol::Ipv4,
        };
        let mut frame = vec![0; ethernet.buffer_len() + ip.buffer_len() + tcp.buffer_len()];
        let checksums = phy::ChecksumCapabilities::default();
        let mut ethernet_frame = EthernetFrame::new_unchecked(&mut frame);
        ethernet.emit(&mut ethernet_frame);
        let mut packet = Ipv4Packet::new_unchecked(ethernet_frame.payload_mut());
        ip.emit(&mut packet, &checksums);
        let mut segment = TcpPacket::new_unchecked(packet.payload_mut());
        tcp.emit(&mut segment, &from.into(), &to.into(), &checksums);
        frame
    }

    /// Sends `words` to a TCP port and gathers the answer.
    pub fn tcp(&mut self, to: impl Into<SocketAddr>, words: &[u8]) -> Tcp {
        let to = endpoint(to.into());
        let buffer = || tcp::SocketBuffer::new(vec![0; 65536]);
        let handle = self.sockets.add(tcp::Socket::new(buffer(), buffer()));
        let local = self.port();
        self.sockets.get_mut::<tcp::Socket>(handle).connect(self.interface.context(), to, local).unwrap();
        let outcome = self.converse(handle, words);
        self.sockets.get_mut::<tcp::Socket>(handle).abort();
        self.turn();
        self.sockets.remove(handle);
        outcome
    }

    /// Begins a connection.
    pub fn open(&mut self, to: SocketAddr) -> Open {
        let buffer = || tcp::SocketBuffer::new(vec![0; 65536]);
        let handle = self.sockets.add(tcp::Socket::new(buffer(), buffer()));
        let local = self.port();
        let socket = self.sockets.get_mut::<tcp::Socket>(handle);
        socket.connect(self.interface.context(), endpoint(to), local).unwrap();
        Open { handle, connected: false, unsent: Vec::new() }
    }

    /// Sends, and takes what arrived meanwhile.
    pub fn exchange(&mut self, open: &mut Open, words: &[u8]) -> Stream {
        open.unsent.extend_from_slice(words);
        self.turn();
        let socket = self.sockets.get_mut::<tcp::Socket>(open.handle);
        open.connected |= socket.may_send();
        if socket.can_send() && !open.unsent.is_empty() {
            let count = socket.send_slice(&open.unsent).unwrap();
            open.unsent.drain(..count);
        }
        let mut arrived = vec![0; socket.recv_queue()];
        if !arrived.is_empty() {
            let count = socket.recv_slice(&mut arrived).unwrap();
            arrived.truncate(count);
        } else if !socket.may_recv() && (open.connected || !socket.is_open()) {
            return if open.connected { Stream::Ended } else { Stream::Refused };
        }
        Stream::Data(arrived)
    }

    pub fn close(&mut self, open: &Open) {
        self.sockets.get_mut::<tcp::Socket>(open.handle).abort();
        self.turn();
        self.sockets.remove(open.handle);
    }

    fn converse(&mut self, handle: SocketHandle, mut words: &[u8]) -> Tcp {
        let begin = Instant::now();
        let (mut connected, mut said) = (false, Vec::new());
        while begin.elapsed() < PATIENCE {
            self.turn();
            let socket = self.sockets.get_mut::<tcp::Socket>(handle);
            connected |= socket.may_send();
            if socket.can_send() && !words.is_empty() {
                let count = socket.send_slice(words).unwrap();
                words = &words[count..];
            }
            while socket.can_recv() {
                let mut chunk = [0; 16384];
                let count = socket.recv_slice(&mut chunk).unwrap();
                said.extend_from_slice(&chunk[..count]);
            }
            let ended = !socket.may_recv() && (connected || !socket.is_open());
            match (connected, ended) {
                (true, true) => return Tcp::Said(said),
                (false, true) => return Tcp::Refused,
                (_, false) => {}
            }
        }
        Tcp::Silent
    }

    /// Sends a datagram; the answer, if one comes in time.
    pub fn udp(&mut self, to: impl Into<SocketAddr>, words: &[u8]) -> Option<Vec<u8>> {
        let to = endpoint(to.into());
        let buffer = || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; 8], vec![0; 8192]);
        let mut socket = udp::Socket::new(buffer(), buffer());
        socket.bind(self.port()).unwrap();
        socket.send_slice(words, to).unwrap();
        let handle = self.sockets.add(socket);
        let begin = Instant::now();
        let patience = if words.len() > 12 && to.port == 53 { PATIENCE } else { SILENCE };
        let mut answer = None;
        while answer.is_none() && begin.elapsed() < patience {
            self.turn();
            let socket = self.sockets.get_mut::<udp::Socket>(handle);
            answer = socket.recv().ok().map(|(bytes, _)| bytes.to_vec());
        }
        self.sockets.remove(handle);
        answer
    }

    /// Asks the guest's resolver for the IPv4 addresses of a name.
    pub fn resolve(&mut self, name: &str) -> Dns {
        let to = SocketAddr::new(self.resolver, 53);
        self.udp(to, &question(name)).map_or(Dns::Silent, |answer| addresses(&answer))
    }
}

/// An empty segment.
fn segment(from: u16, to: u16, control: TcpControl) -> TcpRepr<'static> {
    TcpRepr {
        src_port: from,
        dst_port: to,
        control,
        seq_number: TcpSeqNumber(1),
        ack_number: None,
        window_len: 1000,
        window_scale: None,
        max_seg_size: None,
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: None,
        payload: &[],
    }
}

/// The number of a segment to this port, and whether it says something.
fn heard(frame: &[u8], port: u16) -> Option<(TcpSeqNumber, bool)> {
    let frame = EthernetFrame::new_checked(frame).ok()?;
    if frame.ethertype() != EthernetProtocol::Ipv4 {
        return None;
    }
    let packet = Ipv4Packet::new_checked(frame.payload()).ok()?;
    if packet.next_header() != IpProtocol::Tcp {
        return None;
    }
    let segment = TcpPacket::new_checked(packet.payload()).ok()?;
    (segment.dst_port() == port).then(|| (segment.seq_number(), !segment.payload().is_empty()))
}

fn endpoint(to: SocketAddr) -> IpEndpoint {
    to.into()
}

/// A query for the A records of a name.
fn question(name: &str) -> Vec<u8> {
    let mut query = vec![0x12, 0x34, 0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        query.push(u8::try_from(label.len()).unwrap());
        query.extend_from_slice(label.as_bytes());
    }
    query.extend_from_slice(&[0, 0, 1, 0, 1]);
    query
}

/// The addresses in an answer whose names are pointers.
fn addresses(answer: &[u8]) -> Dns {
    match answer[3] & 0x0f {
        0 => {}
        code => return Dns::Code(code),
    }
    let mut at = 12;
    while answer[at] != 0 {
        at += 1 + usize::from(answer[at]);
    }
    let records = answer[at + 5..].windows(16).filter(|w| w[0] & 0xc0 == 0xc0 && w[2..6] == [0, 1, 0, 1]);
    Dns::Addresses(records.map(|w| w[12..16].try_into().unwrap()).collect())
}
