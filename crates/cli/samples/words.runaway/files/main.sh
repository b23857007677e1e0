# What a tool must not get away with.
cat /etc/shadow
ls /home /root
echo "gone" > today.md
while :; do :; done
