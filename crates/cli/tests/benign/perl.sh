# tries: Perl with processes and files
# needs: perl
# expect: exit 0
exec perl -e '
use strict; use File::Temp; use POSIX ();
my $file = File::Temp->new; print $file "x" x 1000; close $file;
print -s "$file", " ", `echo hello`;
my $child = fork; if (!$child) { POSIX::_exit(3) } waitpid $child, 0;
print $? >> 8, "\n", join(",", sort { $a <=> $b } map { $_ * $_ } 1 .. 9), "\n";
'
