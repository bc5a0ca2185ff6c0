# One thing of the benchmark, from inside the guest: ADDRESS PORT WHAT COUNT.
use strict;
use Socket;
my ($address, $port, $what, $count) = @ARGV;
$SIG{ALRM} = sub { die "$what: no answer for a while\n" };

sub connected {
    socket(my $to, PF_INET, SOCK_STREAM, 0) or die $!;
    setsockopt($to, 6, 1, 1); # TCP_NODELAY
    connect($to, sockaddr_in($port, inet_aton($address))) or die "$what: $!\n";
    return $to;
}

# No text: what could be the method of an HTTP request waits for the rest of it, wherever names are enforced.
sub say_first {
    my ($to, $words) = @_;
    syswrite($to, "\1$words\n") or die "$what: $!\n";
}

alarm 60;
if ($what eq "up") {
    my ($to, $block) = (connected(), "x" x 65536);
    say_first($to, "up $count");
    for (my $left = $count; $left > 0;) {
        my $sent = syswrite($to, $block, $left < 65536 ? $left : 65536) or die "$what: $!\n";
        $left -= $sent;
    }
    sysread($to, my $end, 1);
} elsif ($what eq "down") {
    my ($to, $got) = (connected(), 0);
    say_first($to, "down $count");
    while (my $read = sysread($to, my $bytes, 262144)) { $got += $read }
    die "$got of $count bytes came\n" if $got != $count;
} elsif ($what eq "echo") {
    my $to = connected();
    say_first($to, "echo $count");
    while (sysread($to, my $byte, 1)) { syswrite($to, $byte) or last }
} elsif ($what eq "each") {
    for (1 .. $count) {
        my $to = connected();
        say_first($to, "one");
        sysread($to, my $answer, 3) == 3 or die "$what: cut off\n";
    }
} elsif ($what eq "held") {
    # All of them are open before the first says a word.
    my @all = map { connected() } 1 .. $count;
    say_first($_, "one") for @all;
    my $answered = 0;
    for my $to (@all) { $answered++ if (sysread($to, my $answer, 3) // 0) == 3 }
    die "$answered of $count were answered\n" if $answered != $count;
}
